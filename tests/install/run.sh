#!/usr/bin/env bash
# Installs a build, moves the prefix, and uses it from there as a stranger would:
#   run.sh <build directory> <version> <cmake> <c++ compiler>
set -euo pipefail

build=$1 version=$2 cmake=$3 cxx=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

echo "== install, then move the prefix"
"$cmake" --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mkdir "$work/elsewhere"
mv "$work/first" "$work/elsewhere/moved"
prefix=$work/elsewhere/moved
library=$(find "$prefix" -name libshardsolve.so)
[ -n "$library" ] || fail "libshardsolve.so was not installed"
package=$(find "$prefix" -name 'shardsolve*.cmake')
[ -n "$package" ] || fail "the CMake package was not installed"
if grep -nF -e "$work/first" -e "$build" $package; then
  fail "the CMake package names a directory of the build"
fi

echo "== configure, build and run a project that uses find_package(shardsolve)"
"$cmake" -S "$here" -B "$work/consumer" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$prefix" \
  -DEXPECTED_VERSION="$version" >"$work/configure.log" 2>&1 || { cat "$work/configure.log"; exit 1; }
"$cmake" --build "$work/consumer" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/consumer/consumer" "$version"

if [ -x "$prefix/bin/shardsolve" ]; then
  echo "== the moved command line tool"
  printed=$("$prefix/bin/shardsolve" --version) || fail "bin/shardsolve --version exits with $?"
  echo "$printed"
  case $printed in
    *"$version"*) ;;
    *) fail "bin/shardsolve --version does not say $version" ;;
  esac
fi

echo "== every public header compiles alone"
headers=0
while IFS= read -r header; do
  printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$work/alone.cpp"
  "$cxx" -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$prefix/include" "$work/alone.cpp" ||
    fail "$header does not compile alone"
  headers=$((headers + 1))
done < <(cd "$prefix/include" && find shardsolve -name '*.hpp' | sort)
[ "$headers" -ge 2 ] || fail "only $headers public headers were installed"
echo "$headers headers"

echo "== the library shows no BLAS or LAPACK of its own"
exported=$(nm -D --defined-only "$library" | awk '{print $NF}' | sed 's/@.*//')
# With or without the Fortran underscore: cblas_*, LAPACKE_*, openblas*, and names like dgemm_ or zpotrf_.
routines='gemm|gemv|ger|geru|gerc|symm|hemm|symv|hemv|syrk|herk|syr2k|her2k|trmm|trsm|trmv|trsv|dot|dotu|dotc|axpy|scal'
routines+='|nrm2|asum|copy|swap|potrf2?|potrs|potri|potf2|trtri|trti2|trtrs|lauum|getrf|getrs|lange|lanhe|lansy|lacpy|lacn2'
if grep -E "^(cblas_|LAPACKE_|openblas|goto_|gotoblas|[sdcz](${routines})_?\$|i[sdcz]amax_?\$|xerbla_?\$)" <<<"$exported"; then
  fail "the symbols above are exported from libshardsolve.so"
fi
echo "$(wc -l <<<"$exported") exported symbols, $(grep -c shardsolve <<<"$exported" || true) of them with shardsolve in the name"

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
echo "needs: "$needed
# A build against a shared BLAS (BLA_VENDOR) needs it, of course.
if ! grep -q '^SHARDSOLVE_OPENBLAS_ARCHIVE:FILEPATH=.*/openblas-pthread/' "$build/CMakeCache.txt"; then
  echo "this build uses a BLAS chosen by the user: its library may be among them"
elif grep -E '^lib(openblas|blas|lapack|cblas|gfortran|quadmath|fmt)' <<<"$needed"; then
  fail "libshardsolve.so needs the libraries above; the static BLAS should have left none"
fi
echo "PASSED"
