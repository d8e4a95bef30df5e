#!/usr/bin/env bash
# Runs the tests, stage by stage:  scripts/test.sh [stage...]
#   release  optimised build; unit, kernels (those of GPUs, emulated), distributed, mpi, fuzz and install tiers
#   cli      the command line tool of the release build
#   jax      the wheel as it is released, with the oldest and a new jax, on 1, 2, 4 and 6 devices
#   tsan     distributed tier under ThreadSanitizer
#   asan     unit, distributed and fuzz tiers and the command line under AddressSanitizer + UBSan
#   waits    a sample of the event waits is removed; each removal has to be noticed
# Without a stage: all of these. By name only:
#   tsan-long   unit, distributed and fuzz tiers under ThreadSanitizer, three times
#   waits-long  every event wait is removed in turn
#   faults-long  each call, message and allocation of each rank fails in turn
#   device      on the GPUs that SHARDSOLVE_TEST_GPUS lists ("0,1"): device tier, and the distributed tier there
#   device-jax  the JAX tests on the first SHARDSOLVE_TEST_DEVICES GPUs, by $PYTHON, where jax and the package are installed
# SHARDSOLVE_TSAN_FILTER: regular expression of the distributed tests run by `tsan` (default: all).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
all_stages=(release cli jax tsan asan waits)
jax_versions=(0.8.1 0.10.2)
python=$PWD/.venv/bin/python

# build <preset> [target...]: without a target, everything.
build() {
  local preset=$1
  shift
  cmake --preset "$preset" -DSHARDSOLVE_BUILD_TESTS=ON >"build/$preset-configure.log" 2>&1 ||
    { cat "build/$preset-configure.log"; return 1; }
  cmake --build --preset "$preset" --parallel "$jobs" ${1+--target "$@"}
}

# run_tier <preset> <label> [ctest option...]: a label without tests is a failure. Under a terminal ctest shows its
# progress; elsewhere the lines of tests that passed are left out.
run_tier() {
  local preset=$1 label=$2 launcher=()
  shift 2
  # TSan's options and address layout are inherited by the tests that ctest starts.
  [ "$preset" = tsan ] && launcher=(scripts/tsan_exec.sh)
  local command=("${launcher[@]}" ctest --test-dir "build/$preset" --label-regex "^$label\$" --no-tests=error
    --output-on-failure --parallel "$jobs" "$@")
  echo "-- $preset: $label tests"
  if [ -t 1 ]; then
    "${command[@]}" --progress
  else
    "${command[@]}" | { grep -vE '^ *Start +[0-9]+:|^ *[0-9]+/[0-9]+ Test .* Passed |^Internal ctest|^Test project|^$' || true; }
  fi
}

# run_python <directory holding the command>: pytest fails by itself when it collects nothing.
run_python() {
  local tests=(tests/cli)
  [ -d tests/python ] && tests+=(tests/python)
  SHARDSOLVE_CLI=$PWD/$1/shardsolve "$python" -m pytest -q "${tests[@]}"
}

stage_release() {
  build release
  for label in unit kernels distributed mpi fuzz install; do run_tier release "$label"; done
}

stage_cli() {
  build release
  run_python build/release
}

# run_jax <version> <devices> [pytest option...]
run_jax() {
  local version=$1 devices=$2
  shift 2
  echo "-- jax $version, $devices devices"
  SHARDSOLVE_TEST_DEVICES=$devices "build/jax-$version/bin/python" -m pytest -q -p no:cacheprovider "$@"
}

# As users have it.
jax_newest() {
  run_jax "${jax_versions[-1]}" 4 tests/jax tests/docs
}

# XLA compiles faster here, to slower programs; what is ours in them stays the same.
jax_oldest_and_other_devices() {
  export XLA_FLAGS=--xla_backend_optimization_level=0
  run_jax "${jax_versions[0]}" 4 tests/jax tests/docs
  local devices
  for devices in 1 2 6; do run_jax "${jax_versions[-1]}" "$devices" tests/jax -m "devices and not slow"; done
}

# side_by_side <function>...: all at once, as each keeps little more than one core busy; what they print, one by one.
side_by_side() {
  local name failed=0 running=()
  for name in "$@"; do
    (
      set -e
      "$name"
    ) >"build/$name.log" 2>&1 &
    running+=($!)
  done
  for name in "$@"; do
    wait "${running[0]}" || failed=1
    running=("${running[@]:1}")
    cat "build/$name.log"
  done
  return $failed
}

stage_jax() {
  PYTHON=$python scripts/wheel.sh
  local version
  for version in "${jax_versions[@]}"; do
    rm -rf "build/jax-$version"
    "$python" -m venv "build/jax-$version"
    "build/jax-$version/bin/python" -m pip install --quiet --disable-pip-version-check "jax==$version" build/wheel/dist/*.whl \
      -r requirements/jax.txt
  done
  side_by_side jax_newest jax_oldest_and_other_devices
}

stage_tsan() {
  build tsan shardsolve_distributed_tests
  run_tier tsan distributed ${SHARDSOLVE_TSAN_FILTER:+--tests-regex "$SHARDSOLVE_TSAN_FILTER"}
}

stage_asan() {
  # Exit code 66 for every report: 1, the default, is one of the tool's own answers.
  export ASAN_OPTIONS="exitcode=66 detect_stack_use_after_return=1 strict_string_checks=1"
  export UBSAN_OPTIONS="exitcode=66 print_stacktrace=1"
  export LSAN_OPTIONS="exitcode=66"
  build asan shardsolve_unit_tests shardsolve_distributed_tests shardsolve_fuzz_smoke shardsolve_cli
  for label in unit distributed fuzz; do run_tier asan "$label"; done
  SHARDSOLVE_SANITIZER=address run_python build/asan
}

stage_waits() {
  build tsan shardsolve_distributed_tests
  "$python" scripts/prove_waits.py --sample
}

stage_tsan_long() {
  build tsan
  for label in unit distributed fuzz; do run_tier tsan "$label" --repeat until-fail:3; done
}

stage_waits_long() {
  build tsan shardsolve_distributed_tests
  "$python" scripts/prove_waits.py
}

stage_faults_long() {
  export SHARDSOLVE_TEST_ALL_FAULTS=1
  build release
  build/release/tests/shardsolve_distributed_tests --gtest_brief=1 \
    --gtest_filter='*InjectedFault*:*ProcessMesh*:*MessageThatFails*:*Soak*'
}

# Left out are tests of what only CPU devices have: the host's memory, allocator and queues.
stage_device() {
  : "${SHARDSOLVE_TEST_GPUS:?list the GPUs, e.g. SHARDSOLVE_TEST_GPUS=0,1}"
  build release
  run_tier release device
  run_tier release distributed --exclude-regex \
    'Agreement|Silence|MeshCalls|FactorFile|Float64File|Flops|Leaving|Waits|Workspace|AdoptedMemory|FactorDamaged|HostPeers|TcpMesh|ProcessMesh|TracedCallThatFails|MessageThatFails|Soak'
}

stage_device_jax() {
  : "${SHARDSOLVE_TEST_DEVICES:?say how many GPUs, e.g. SHARDSOLVE_TEST_DEVICES=2}"
  SHARDSOLVE_TEST_PLATFORM=cuda "${PYTHON:-python3}" -m pytest -q -p no:cacheprovider tests/jax
}

describe() {
  case $1 in
    release) echo "optimised build; unit, kernels, distributed, mpi, fuzz and install tiers" ;;
    cli) echo "the command line tool of the release build" ;;
    jax) echo "the wheel as it is released, with the oldest and a new jax" ;;
    tsan) echo "distributed tier under ThreadSanitizer" ;;
    asan) echo "all tiers and the command line under AddressSanitizer and UBSan" ;;
    waits) echo "a sample of event waits removed: is each removal noticed?" ;;
    tsan-long) echo "all tiers under ThreadSanitizer, three times" ;;
    faults-long) echo "each call, message and allocation fails in turn" ;;
    device) echo "device and distributed tiers on GPUs" ;;
    device-jax) echo "the JAX tests on GPUs" ;;
    waits-long) echo "every event wait removed in turn: is each removal noticed?" ;;
    *) return 1 ;;
  esac
}

summary=()
finish() {
  echo
  echo "== summary"
  printf '%s\n' "${summary[@]}"
}

if [ $# -gt 0 ]; then stages=("$@"); else stages=("${all_stages[@]}"); fi
for stage in "${stages[@]}"; do
  describe "$stage" >/dev/null || {
    echo "no stage '$stage'; there are: ${all_stages[*]} tsan-long waits-long faults-long device device-jax" >&2
    exit 2
  }
done

mkdir -p build
for stage in "${stages[@]}"; do
  echo
  echo "== $stage: $(describe "$stage")"
  if [ "$stage" = waits ] && [ ! -f scripts/prove_waits.py ]; then
    summary+=("$(printf '%-12s %8s  %s' "$stage" - 'left out: scripts/prove_waits.py does not exist')")
    continue
  fi
  start=$SECONDS
  # A subshell that is not part of a condition, so that `set -e` holds inside.
  set +e
  (
    set -e
    "stage_${stage//-/_}"
  )
  status=$?
  set -e
  if [ $status -ne 0 ]; then
    summary+=("$(printf '%-12s %6d s  FAILED' "$stage" $((SECONDS - start)))")
    finish
    exit 1
  fi
  summary+=("$(printf '%-12s %6d s  passed' "$stage" $((SECONDS - start)))")
done
finish
