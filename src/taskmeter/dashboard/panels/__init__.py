"""Pictures: `taskmeter.views.figures` drawn with Bokeh, which this package alone needs.

Bokeh is what Dask's own dashboard is made of: pip install 'taskmeter[dashboard]'.
"""
