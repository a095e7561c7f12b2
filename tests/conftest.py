"""That this file is here makes the modules beside it importable from every directory of tests."""
