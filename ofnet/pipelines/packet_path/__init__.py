"""The stages that each packet passes in all pipelines, whatever the features. Pure."""
