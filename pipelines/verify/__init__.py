"""Stage 8: rules that prove a label, then a judge as a second opinion."""
