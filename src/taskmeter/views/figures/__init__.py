"""What the pictures show: snapshots as rows and columns of numbers. Pure, and without Bokeh."""
