"""Create, update and delete of the REST objects, one module for each class. Pure.

In come the view and a decoded object; out comes a `netmaster.plan.model.Plan` or an error whose
text is the original's.
"""
