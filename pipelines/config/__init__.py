"""What a run is: one pydantic model, filled from a preset, a YAML file and `--set k=v`, in that order.

The fields of `RunConfig` define the data; everything under `limits` does not, and may differ when a
run is resumed. Scenario files are read here too, since they are part of what defines the data.
"""

from pipelines.config.files import MAX_FILE_BYTES, ROOT, SCENARIOS, read_scenario, read_yaml, refuse_keys
from pipelines.config.form import UNITS, Strict
from pipelines.config.layers import PRESETS, load, parse_overrides
from pipelines.config.names import clean_name, identifier
from pipelines.config.run import Language, Limits, Models, ModelSpec, Preset, RunConfig, Samples, Shares
from pipelines.config.scenario import CapabilitySpec, ImportedApi, ImportedPlatform, ScenarioSpec, SituationSpec

__all__ = [
    "MAX_FILE_BYTES", "PRESETS", "ROOT", "SCENARIOS", "UNITS", "CapabilitySpec", "ImportedApi", "ImportedPlatform", "Language",
    "Limits", "ModelSpec", "Models", "Preset", "RunConfig", "Samples", "ScenarioSpec", "Shares", "SituationSpec", "Strict",
    "clean_name", "identifier", "load", "parse_overrides", "read_scenario", "read_yaml", "refuse_keys",
]  # fmt: skip
