"""Write adaplan_envs/alfworld/data/scenes.json from the floor plans and tables of the installed alfworld package.

Shipped as a file so that a task stays the same whatever version of alfworld is installed.

    python scripts/build_alfworld_scenes.py            # writes the file
    python scripts/build_alfworld_scenes.py --check    # exit code 1 if it would change
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections import Counter
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "adaplan_envs" / "alfworld" / "data" / "scenes.json"
GOALS = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
BURNERS = 4
"""The floor plans name the fixtures that open or move apart; of the others they say only that they are there."""


def build() -> dict[str, Any]:
    """Return the content of scenes.json."""
    spec = find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit('alfworld is not installed: pip install "adaplan[alfworld]"')
    gen = Path(spec.submodule_search_locations[0]) / "gen"
    # Run by path: importing the package would create ~/.cache/alfworld.
    tables = runpy.run_path(str(gen / "constants.py"))
    library = runpy.run_path(str(gen / "goal_library.py"))["gdict"]

    movable = tables["MOVABLE_RECEPTACLES_SET"]
    holds = {
        receptacle: sorted(kind for kind in kinds if not kind.endswith("Sliced"))
        for receptacle, kinds in sorted(tables["VAL_RECEPTACLE_OBJECTS"].items())
        if receptacle not in movable
    }
    holds = {receptacle: kinds for receptacle, kinds in holds.items() if kinds}
    portable = set().union(*holds.values())
    affords = {
        name: sorted(kind for kind in tables["VAL_ACTION_OBJECTS"][table] if not kind.endswith("Sliced"))
        for name, table in (
            ("clean", "Cleanable"),
            ("heat", "Heatable"),
            ("cool", "Coolable"),
            ("slice", "Sliceable"),
        )
    }
    scenes = []
    for kind, numbers in tables["SCENE_TYPE"].items():
        for number in numbers:
            present = json.loads((gen / "layouts" / f"FloorPlan{number}-objects.json").read_text())
            placed = json.loads((gen / "layouts" / f"FloorPlan{number}-openable.json").read_text())
            count = Counter(re.split(r"\|", name)[-1 if name.endswith("Basin") else 0] for name in placed)
            for fixture in present:
                if fixture in holds and fixture not in count:
                    count[fixture] = BURNERS if fixture == "StoveBurner" else 1
            scenes.append(
                {
                    "number": number,
                    "kind": kind,
                    "held_out": number in tables["TEST_SCENE_NUMBERS"],
                    "receptacles": {name: count[name] for name in sorted(count) if name in holds},
                    "objects": sorted(set(present) & portable),
                    "desk_lamp": "DeskLamp" in present,
                }
            )
    goals = {
        goal: {
            "kinds": sorted(tables["GOALS_VALID"][goal]),
            "templates": library[goal]["templates"],
            "pddl": " ".join(library[goal]["pddl"].replace("#", "-").split()).removesuffix(")").rstrip(),
        }
        for goal in GOALS
    }
    return {
        "source": f"alfworld {version('alfworld')} (MIT), see SOURCES.md",
        "goals": goals,
        "holds": holds,
        "openable": sorted(set(holds) & tables["OPENABLE_CLASS_SET"]),
        "vessels": sorted(movable & portable),
        "affords": affords,
        "scenes": scenes,
    }


def main() -> int:
    """Build, then write or compare."""
    text = json.dumps(build(), indent=1) + "\n"
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    if "--check" in sys.argv[1:]:
        same = TARGET.read_text() == text
        print("unchanged" if same else f"{TARGET} differs: run {Path(__file__).name}")
        return 0 if same else 1
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text)
    print(f"{TARGET}: {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
