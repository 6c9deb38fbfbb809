"""The lab: crowds and measurements, to see for oneself what the engine promises."""
