#!/usr/bin/env bash
# Runs the tests, stage by stage:  scripts/test.sh [stage...]
# What a user should see pass, and `make test` runs; the stages without a name given:
#   release  optimised build; unit, distributed, mpi, fuzz and install tiers
#   fronts   the command line tool and half of the tests of the JAX package of the release build, side by side
# Beside these in CI (.ci/run):
#   pages    README and the pages of the site: their Python does what they say
#   kernels  kernels of GPUs, emulated; the tests of GPUs compile
#   wheel    what is released is made, but for CUDA 12, and tried with the oldest and the newest Python that are found; the
#            wheel with the oldest jax, on other devices; the other half of the tests of the JAX package with the newest one,
#            side by side; NetKet
#   tsan     distributed tier under ThreadSanitizer
#   waits    a sample of the event waits is removed; each removal has to be noticed
#   asan     unit, distributed and fuzz tiers under AddressSanitizer + UBSan
#   new-routine  a new family of routines is made in a copy of the tree, and compiled
#   recipes  recipe for conda-forge, Dockerfile, Apptainer's definition and scripts of a release, as linters see them
# All of these, and in `make test-all` also:
#   wheel-all  all cases of all JAX tests with the wheel, and the oldest and the newest jax, on 1, 2, 4 and 6 devices
#   asan-cli   the command line tool under AddressSanitizer + UBSan
# By name only:
#   tsan-long    unit, distributed and fuzz tiers under ThreadSanitizer, three times
#   waits-long   every event wait is removed in turn
#   faults-long  each call, message and allocation of each rank fails in turn
#   cuda12       the library for CUDA 12 is built (clang 20 or newer); kernels as sm_70 has them, emulated
#   device       on the GPUs that SHARDSOLVE_TEST_GPUS lists ("0,1"): device tier, and the distributed tier there
#   device-jax   the JAX tests on the first SHARDSOLVE_TEST_DEVICES GPUs, by $PYTHON, where jax and the package are installed
# SHARDSOLVE_TEST_SAMPLE: which of the cases of each JAX test `fronts` and `wheel` run, and always one (default: 10/10, the last
# tenth; 1/1: all). SHARDSOLVE_TEST_PART: which of the JAX tests `fronts` runs (default: 1/2, every other one; 1/1: all).
# SHARDSOLVE_TEST_DTYPES: of which dtypes the C++ tests are that are there for each (default: float64 and complex64, as the
# stages with sanitizers have the other two; all). `make test-all` has all of them.
# SHARDSOLVE_TSAN_FILTER: regular expression of the distributed tests run by `tsan` (default: all).
# SHARDSOLVE_TSAN_SAMPLE, SHARDSOLVE_ASAN_SAMPLE: which distributed tests `tsan` and `asan` run: 1/2 every other one, from
# the first (default: all).
# Reports of all tests lie in build/times; scripts/test_times.py adds up what each stage and family took.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
test_stages=(release fronts)
all_stages=(release fronts pages kernels new-routine recipes wheel-all tsan waits asan asan-cli)
named_stages=(wheel tsan-long waits-long faults-long cuda12 device device-jax)
oldest_jax=0.8.1
python=$PWD/.venv/bin/python
reports=build/times
dtypes=${SHARDSOLVE_TEST_DTYPES:-others}

# configure <preset> [option...]
configure() {
  local preset=$1 options=()
  shift
  # The CUDA backend is built where a GPU is; SHARDSOLVE_CUDA=ON builds it here, too.
  [ -z "${SHARDSOLVE_CUDA:-}" ] || options+=("-DSHARDSOLVE_CUDA=$SHARDSOLVE_CUDA")
  [ "$preset" != release ] || options+=("-DSHARDSOLVE_TEST_DTYPES=$dtypes")
  # Of a second build it compiles only what has changed.
  if command -v ccache >/dev/null; then
    options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  cmake --preset "$preset" -DSHARDSOLVE_BUILD_TESTS=ON "${options[@]}" "$@" >"build/$preset-configure.log" 2>&1 ||
    { cat "build/$preset-configure.log"; return 1; }
}

# build <preset> [target...]: without a target, everything.
build() {
  local preset=$1
  shift
  cmake --build --preset "$preset" --parallel "$jobs" ${1+--target "$@"}
}

# run_tier <preset> <label> [ctest option...]: a label without tests is a failure. Under a terminal ctest shows its
# progress; elsewhere the lines of tests that passed are left out.
run_tier() {
  local preset=$1 label=$2 launcher=()
  shift 2
  # TSan's options and address layout are inherited by the tests that ctest starts.
  [ "$preset" = tsan ] && launcher=(scripts/tsan_exec.sh)
  # One more than cores: some tests wait for a rank that is silent.
  local command=("${launcher[@]}" ctest --test-dir "build/$preset" --label-regex "^$label\$" --no-tests=error
    --output-junit "$PWD/$reports/$preset-$label.xml" --output-on-failure --parallel "$((jobs + 1))" "$@")
  echo "-- $preset: $label tests"
  if [ -t 1 ]; then
    "${command[@]}" --progress
  else
    "${command[@]}" | { grep -vE '^ *Start +[0-9]+:|^ *[0-9]+/[0-9]+ Test .* Passed |^Internal ctest|^Test project|^$' || true; }
  fi
}

# run_units <preset> <filter>: the unit tests in a process a core. A program with sanitizers takes longer to start and to
# end than most of them do.
run_units() {
  local shard failed=0 running=()
  echo "-- $1: unit tests"
  for ((shard = 0; shard < jobs; shard++)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$shard "build/$1/tests/shardsolve_unit_tests" --gtest_brief=1 \
      --gtest_filter="$2" --gtest_output="xml:$reports/$1-unit-$shard.xml" >"build/$1-unit-$shard.log" 2>&1 &
    running+=($!)
  done
  for ((shard = 0; shard < jobs; shard++)); do
    wait "${running[shard]}" || failed=1
    cat "build/$1-unit-$shard.log"
  done
  return $failed
}

# run_command <directory holding the command> <name of the report>: pytest fails by itself when it collects nothing. Two at a
# time, as most wait for a process that is to be missed.
run_command() {
  local tests=(tests/cli)
  [ -d tests/python ] && tests+=(tests/python)
  echo "-- the command in $1"
  SHARDSOLVE_CLI=$PWD/$1/shardsolve "$python" -m pytest -q --numprocesses 2 --dist worksteal \
    --junitxml "$reports/$2.xml" "${tests[@]}"
}

# run_jax <python> <name of the report> <devices> [pytest option...]
run_jax() {
  local interpreter=$1 report=$2 devices=$3
  shift 3
  echo "-- jax $("$interpreter" -c 'import jax; print(jax.__version__)'), $devices devices"
  SHARDSOLVE_TEST_DEVICES=$devices "$interpreter" -m pytest -q -p no:cacheprovider --junitxml "$reports/$report.xml" "$@"
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

# With the package for the source tree: PYTHONPATH=python.
build_release() {
  configure release -DSHARDSOLVE_BUILD_PYTHON=ON -DPython_EXECUTABLE="$python"
  build release
  cmake --install build/release --component python --prefix python >build/python-install.log
}

stage_release() {
  build_release
  for label in unit distributed mpi fuzz install; do run_tier release "$label"; done
}

# Where there is no GPU `make test` builds none of these, and no user needs them.
stage_kernels() {
  configure release
  build release shardsolve_device_tests
  # Without CUDA's compiler there is no such target, and one test that says so.
  if cmake --build --preset release --target help | grep -q '^shardsolve_kernels_tests:'; then
    build release shardsolve_kernels_tests
  fi
  run_tier release kernels
}

# compile_quickly <python>: XLA compiles in half the time, to slower programs; what is ours in them stays the same. It ends
# programs over a flag that it does not know, as that of jax 0.12 the second one.
compile_quickly() {
  export XLA_FLAGS=--xla_cpu_use_fusion_emitters=false
  "$1" -c 'import jax; jax.devices()' >/dev/null 2>&1 || XLA_FLAGS=
  XLA_FLAGS+=" --xla_backend_optimization_level=0"
}

# package_of_the_tree <python> <name of the report> [pytest option...]: the library is loaded by ctypes, so one build serves
# every Python.
package_of_the_tree() {
  local interpreter=$1 report=$2
  shift 2
  compile_quickly "$interpreter"
  export PYTHONPATH=$PWD/python SHARDSOLVE_TEST_EXAMPLES=8
  export SHARDSOLVE_CLI=$PWD/build/release/shardsolve SHARDSOLVE_TEST_SAMPLE=${SHARDSOLVE_TEST_SAMPLE:-10/10}
  run_jax "$interpreter" "$report" 4 "$@" -m "not more"
}

# What is solved from JAX without a dense matrix.
operators=(tests/jax/test_jax_{krylov,csr,lineax,beam,networks}*.py)

the_command() { run_command build/release cli; }
operators_in_jax() { package_of_the_tree "$python" jax-operators "${operators[@]}"; }
matrices_in_jax() { package_of_the_tree "$python" jax tests/jax "${operators[@]/#/--deselect=}"; }

stage_fronts() {
  build_release
  export SHARDSOLVE_TEST_PART=${SHARDSOLVE_TEST_PART:-1/2}
  side_by_side the_command operators_in_jax matrices_in_jax
}

stage_pages() {
  build_release
  package_of_the_tree "$python" pages tests/docs --numprocesses 2 --dist worksteal
}

# A Python that the newest jax is for, if there is one, else that of .venv: jax 0.11 and later want 3.12.
newest_python() {
  local found
  found=$(scripts/pythons.sh 13 12)
  head -n 1 <<<"${found:-$python}"
}

# fresh_venv <name> <python> <requirement>...: with what the tests need, in a virtual environment of that name.
fresh_venv() {
  local room=build/$1 interpreter=$2
  shift 2
  rm -rf "$room"
  "$interpreter" -m venv "$room"
  "$room/bin/python" -m pip install --quiet --disable-pip-version-check "$@" -r requirements/test.txt
}

# A sixth of the tests, and a tenth of their cases; `make test` and those with the newest have another. On devices that do
# not divide what four do.
wheel_with_the_oldest() {
  compile_quickly build/jax-oldest/bin/python
  export SHARDSOLVE_TEST_SAMPLE=1/10 SHARDSOLVE_TEST_PART=1/6
  run_jax build/jax-oldest/bin/python jax-oldest 6 tests/jax -m "(devices or wheel) and not more and not slow"
}

# The half of the tests that `fronts` leaves out.
operators_with_the_newest() {
  export SHARDSOLVE_TEST_PART=2/2
  package_of_the_tree build/jax-newest/bin/python jax-newest-operators "${operators[@]}"
}
matrices_with_the_newest() {
  export SHARDSOLVE_TEST_PART=2/2
  package_of_the_tree build/jax-newest/bin/python jax-newest tests/jax "${operators[@]/#/--deselect=}"
}

# NetKet's drivers with our solvers, in the environment of the newest jax. Installed last: it may want an older one.
# with_netket [pytest option...]
with_netket() {
  local interpreter=build/jax-newest/bin/python
  "$interpreter" -m pip install --quiet --disable-pip-version-check "netket>=3.23"
  SHARDSOLVE_TEST_SAMPLE=1/1 run_jax "$interpreter" jax-netket 4 "$@"
}

netket_with_the_newest() {
  compile_quickly build/jax-newest/bin/python
  PYTHONPATH=$PWD/python with_netket tests/jax/test_jax_netket.py -m "slow and not more"
}

stage_wheel() {
  local pythons
  build_release
  mapfile -t pythons < <(scripts/pythons.sh)
  PYTHON=$python PYTHONS="${pythons[0]} ${pythons[-1]}" JAXES="jax<0.13" scripts/release.sh --no-cuda12
  fresh_venv jax-oldest "$python" "jax==$oldest_jax" build/dist/*.whl
  fresh_venv jax-newest "$(newest_python)" jax
  side_by_side wheel_with_the_oldest operators_with_the_newest matrices_with_the_newest
  side_by_side netket_with_the_newest
}

# As users have it.
wheel_with_the_newest() {
  run_jax build/jax-newest/bin/python jax-newest-all 4 tests/jax tests/docs
  with_netket tests/jax/test_jax_netket.py tests/docs/test_examples.py -k "netket"
}

wheel_with_the_oldest_and_other_devices() {
  compile_quickly build/jax-oldest/bin/python
  run_jax build/jax-oldest/bin/python jax-oldest-all 4 tests/jax tests/docs
  compile_quickly build/jax-newest/bin/python
  local devices
  for devices in 1 2 6; do
    run_jax build/jax-newest/bin/python "jax-$devices-devices" "$devices" tests/jax -m "devices and not slow"
  done
}

stage_wheel_all() {
  PYTHON=$python scripts/wheel.sh
  fresh_venv jax-oldest "$python" "jax==$oldest_jax" build/wheel/dist/*.whl
  fresh_venv jax-newest "$(newest_python)" jax build/wheel/dist/*.whl
  side_by_side wheel_with_the_newest wheel_with_the_oldest_and_other_devices
}

# one_in <sample>: the ctest option for every n-th test from the k-th, of k/n; nothing without a sample.
one_in() {
  [ -z "$1" ] || echo "-I ${1%/*},,${1#*/}"
}

build_for_threads() {
  configure tsan
  build tsan shardsolve_distributed_tests
}

# Distributed tests that are about numbers and sizes alone: with sanitizers minutes each, on the queues of other tests.
numbers_alone='Krylov(Rounding|Beam|Diagnose|MultigridOfPoisson|Orders)|OfEvery(Square|TallOrWide)?Matrix'
numbers_alone+='|EveryMatrix(_Is|OnEveryCut|WithAFactor)|OfManyRows|AnyGraph_HasTheSolution|LeastSquares_OfFullRank'
numbers_alone+='|Krylov(Singular|ErrorEstimate)|Ridge_OfAnyMatrix|SomeEigenvectors|Scales_OfRows|IsASimilarBand|RawSolves_'
numbers_alone+='|EighBisection|AnyBitTheOtherWay'
numbers_alone+='|PolarFactors|Planted|IsWhatThePlanSays|IsMadeAnewForLargerCallsOnly'

# Also left out is what is about input and files.
stage_tsan() {
  build_for_threads
  run_tier tsan distributed $(one_in "${SHARDSOLVE_TSAN_SAMPLE:-}") \
    --exclude-regex "$numbers_alone|Krylov(Auto|BadInput|Incomplete|Verdict)|Flops|Float64File|Factor(File|Damaged)" \
    ${SHARDSOLVE_TSAN_FILTER:+--tests-regex "$SHARDSOLVE_TSAN_FILTER"}
}

stage_waits() {
  build_for_threads
  "$python" scripts/prove_waits.py --sample
}

# Exit code 66 for every report: 1, the default, is one of the tool's own answers.
report_by_exit_code() {
  export ASAN_OPTIONS="exitcode=66 detect_stack_use_after_return=1 strict_string_checks=1"
  export UBSAN_OPTIONS="exitcode=66 print_stacktrace=1"
  export LSAN_OPTIONS="exitcode=66"
}

stage_asan() {
  report_by_exit_code
  configure asan
  build asan shardsolve_unit_tests shardsolve_distributed_tests shardsolve_fuzz_smoke
  # Without matrices of some 500 rows that the reference multiplies.
  run_units asan '-Beam.NonlinearTips*:*GramFactor_OfMoreThanABlock*:*Divide_ByATriangle_IsUndoneByIt*:*HonestResults_Pass*'
  run_tier asan distributed $(one_in "${SHARDSOLVE_ASAN_SAMPLE:-}") --exclude-regex "$numbers_alone"
  run_tier asan fuzz
}

stage_asan_cli() {
  report_by_exit_code
  configure asan
  build asan shardsolve_cli
  SHARDSOLVE_SANITIZER=address run_command build/asan asan-cli
}

# What it is beside has been built by `release`.
stage_new_routine() {
  build_release
  "$python" scripts/prove_new_routine.py
}

stage_recipes() {
  scripts/setup.sh recipes
  scripts/check.sh recipes
}

stage_tsan_long() {
  configure tsan -DSHARDSOLVE_TEST_DTYPES=all
  build tsan
  for label in unit distributed fuzz; do run_tier tsan "$label" --repeat until-fail:3; done
}

stage_waits_long() {
  build_for_threads
  "$python" scripts/prove_waits.py
}

stage_faults_long() {
  export SHARDSOLVE_TEST_ALL_FAULTS=1
  build_release
  build/release/tests/shardsolve_distributed_tests --gtest_brief=1 \
    --gtest_filter='*InjectedFault*:*ProcessMesh*:*MessageThatFails*:*Soak*'
}

# Panels in one kernel and windows that slide are for sm_90.
stage_cuda12() {
  PYTHON=$python scripts/cuda12.sh library
  configure release -B build/sm_70 -DSHARDSOLVE_EMULATED_GPU=700
  cmake --build build/sm_70 --parallel "$jobs" --target shardsolve_kernels_tests
  build/sm_70/tests/shardsolve_kernels_tests --gtest_brief=1 --gtest_filter='-*EmulatedPanels*:*WindowsWithoutGaps*'
}

# Left out are tests of what only CPU devices have: the host's memory, allocator and queues.
stage_device() {
  : "${SHARDSOLVE_TEST_GPUS:?list the GPUs, e.g. SHARDSOLVE_TEST_GPUS=0,1}"
  dtypes=all
  configure release
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
    release) echo "optimised build; unit, distributed, mpi, fuzz and install tiers" ;;
    pages) echo "the Python of README and of the site's pages" ;;
    kernels) echo "kernels of GPUs, emulated" ;;
    fronts) echo "the command line tool and the JAX package of that build" ;;
    wheel) echo "what is released, but for CUDA 12; the wheel with the oldest jax, on six devices; the newest one; NetKet" ;;
    wheel-all) echo "all JAX tests with the wheel, and the oldest and the newest jax" ;;
    tsan) echo "distributed tier under ThreadSanitizer" ;;
    waits) echo "a sample of event waits removed: is each removal noticed?" ;;
    asan) echo "unit, distributed and fuzz tiers under AddressSanitizer and UBSan" ;;
    asan-cli) echo "the command line tool under AddressSanitizer and UBSan" ;;
    recipes) echo "what a release is made with, as linters see it" ;;
    new-routine) echo "a new family of routines, made by scripts/new_routine.py: does it build?" ;;
    tsan-long) echo "all tiers under ThreadSanitizer, three times" ;;
    waits-long) echo "every event wait removed in turn: is each removal noticed?" ;;
    faults-long) echo "each call, message and allocation fails in turn" ;;
    cuda12) echo "the library for CUDA 12; kernels as sm_70 has them, emulated" ;;
    device) echo "device and distributed tiers on GPUs" ;;
    device-jax) echo "the JAX tests on GPUs" ;;
    *) return 1 ;;
  esac
}

# Sets cpu_seconds to what all that ran here until now took; `times` says it as 1m2.3s, of the children last.
read_cpu_seconds() {
  times >build/cpu-times # in no subshell: that would have none yet
  cpu_seconds=$(tail -n 1 build/cpu-times | tr ms '  ' | awk '{ printf "%d", 60 * ($1 + $3) + $2 + $4 }')
}

summary=()
finish() {
  echo
  echo "== summary"
  printf '%s\n' "${summary[@]}"
  if [ "${stages[*]}" = "${test_stages[*]}" ]; then
    printf '%-12s %6d s  on two cores with nothing built before: at most %d\n' "make test" $SECONDS 1200
  fi
}

case "$*" in
  '') stages=("${test_stages[@]}") ;;
  all)
    stages=("${all_stages[@]}")
    dtypes=${SHARDSOLVE_TEST_DTYPES:-all}
    ;;
  *) stages=("$@") ;;
esac
for stage in "${stages[@]}"; do
  describe "$stage" >/dev/null || {
    echo "no stage '$stage'; there are: all ${all_stages[*]} ${named_stages[*]}" >&2
    exit 2
  }
done

mkdir -p "$reports"
for stage in "${stages[@]}"; do
  echo
  echo "== $stage: $(describe "$stage")"
  start=$SECONDS
  read_cpu_seconds
  cpu_seconds_before=$cpu_seconds
  # A subshell that is not part of a condition, so that `set -e` holds inside.
  set +e
  (
    set -e
    "stage_${stage//-/_}"
  )
  status=$?
  set -e
  read_cpu_seconds
  verdict=passed
  [ $status -eq 0 ] || verdict=FAILED
  summary+=("$(printf '%-12s %6d s  %s, %d s of CPUs' "$stage" $((SECONDS - start)) $verdict \
    $((cpu_seconds - cpu_seconds_before)))")
  if [ $status -ne 0 ]; then
    finish
    exit 1
  fi
done
finish
"$python" scripts/test_times.py "$reports"
