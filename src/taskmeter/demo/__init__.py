"""The bundled workload of the demo."""
