// Logs and captures of Krylov solves, and comparisons of logs.

#include "krylov_files/capture_index.hpp"
#include "krylov_files/log_comparison.hpp"
#include "krylov_files/log_file.hpp"
#include "krylov_files/npz_writer.hpp"
#include "sparse_files/sparse_file.hpp"
#include "tests/support/files.hpp"
#include "tests/support/memory_file.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov_files.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace shardsolve::krylov::files {
namespace {

using testing::expect_error;
using testing::MemoryFile;
using testing::TemporaryDirectory;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Request request_for_tests() {
  Request request;
  request.options = {.method = Method::bicgstab, .rtol = 1e-10, .atol = 0.1, .use_guess = true};
  request.preconditioner = {Recipe::Kind::block_jacobi, {0, 40, 100}};
  request.n = 100;
  request.entries = 298;
  request.dtype = Dtype::complex64;
  request.backend = "cuda";
  request.ranks = 3;
  request.checksums = {.a = 0xffffffff, .b = 0, .guess = 7};
  return request;
}

LogRecord iteration(std::int64_t number, double residual) {
  return {.iteration = number, .residual = residual, .rho = {0.1 * residual, -0.0}, .alpha = 0.3};
}

Result result_for_tests() {
  Result result;
  result.status = Status::stagnated;
  result.outcome.status = outcome_status(result.status);
  result.iterations = 3;
  result.matvecs = 9;
  result.restarts = 1;
  result.residual = 1.0 / 3.0;
  result.tolerance = 1e-10;
  result.margin = infinity;
  result.message = "stagnated: \"so\"";
  result.log = {iteration(1, 0.5), iteration(2, not_a_number), iteration(3, 1e-300)};
  result.log.push_back(
      {.iteration = 3, .event = Event::ended, .status = Status::stagnated, .residual = 0.25});
  return result;
}

/// The same by cg first, with one iteration, and then by bicgstab.
Request automatic_request() {
  Request request = request_for_tests();
  request.options.method = Method::cg;
  request.is_automatic = true;
  return request;
}
Result automatic_result() {
  Result result = result_for_tests();
  result.attempts = {{Method::cg, Status::indefinite_operator, 2, 3, 0, 0.5, "indefinite: ..."},
                     {Method::bicgstab, Status::stagnated, 3, 9, 1, 1.0 / 3.0, "stagnated: ..."}};
  for (LogRecord& record : result.log) {
    record.attempt = 2;
  }
  LogRecord of_cg = iteration(2, 0.5);
  of_cg.attempt = 1;
  result.log.insert(result.log.begin(), of_cg);
  return result;
}

/// Texts of a log of one method and of one of two attempts.
std::vector<std::string> log_texts() {
  return {log_text(request_for_tests(), result_for_tests()),
          log_text(automatic_request(), automatic_result())};
}

Log read_text(const std::string& text) {
  const MemoryFile file;
  EXPECT_TRUE(file.hold(text));
  return read_log(file.path());
}

TEST(KrylovLog, WrittenAndRead_IsTheSameText) {
  for (const std::string& text : log_texts()) {
    const Log log = read_text(text);
    EXPECT_EQ(log_text(log.request, log.result), text);
    EXPECT_EQ(log.request.preconditioner, request_for_tests().preconditioner);
    EXPECT_EQ(log.result.margin, infinity);
  }
  const Log log = read_text(log_texts()[0]);
  EXPECT_EQ(log.result.log.size(), 4U);
  EXPECT_EQ(log.result.log.front(), result_for_tests().log.front());
  const Log automatic = read_text(log_texts()[1]);
  EXPECT_EQ(automatic.result.log.size(), 5U);
  EXPECT_EQ(automatic.result.log.front(), automatic_result().log.front());
  EXPECT_EQ(automatic.result.attempts.size(), 2U);
}

TEST(KrylovLog, OfOneMethod_SaysNothingOfAttempts) {
  const std::string text = log_texts()[0];
  EXPECT_NE(text.find("\"format\":1,"), std::string::npos);
  EXPECT_EQ(text.find("\"attempt\""), std::string::npos);
}

TEST(KrylovLog, AttemptsThatTheVerdictHasNot_AreRefused) {
  const std::string text = log_texts()[1];
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  const std::string second = R"({"attempt": 2, "method": "bicgstab")";
  for (const auto& [changed, words] : std::vector<std::pair<std::string, std::string>>{
           {with(second, R"({"attempt": 3, "method": "bicgstab")"), "is before that of the line"},
           {with(second, R"({"attempt": 2, "method": "cg")"), "attempt 2 is of cg"},
           {with(second, R"({"method": "bicgstab")"), "no \"attempt\""},
           {with(second, R"({"attempt": 0, "method": "bicgstab")"), "whole number from 1"},
           {with(R"("method":"bicgstab","status")", R"("method":"minres","status")"),
            "the verdict says minres"}}) {
    SCOPED_TRACE(words);
    expect_error([&, log = changed] { read_text(log); }, ErrorKind::invalid_argument,
                 {"line", words});
  }
}

TEST(KrylovLog, CutAnywhere_IsRefused) {
  const std::string text = log_texts()[1];
  for (std::size_t size = 0; size < text.size(); ++size) {
    SCOPED_TRACE(size);
    expect_error([&] { read_text(text.substr(0, size)); }, ErrorKind::invalid_argument,
                 {"line", "cut off"});
  }
}

TEST(KrylovLog, AnyByteChanged_IsReadOrRefused) {
  const std::string text = log_texts()[1];
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char other : {'\0', '9', '"', '}', '\xff'}) {
      std::string changed = text;
      changed[at] = other;
      try {
        read_text(changed);
      } catch (const Error& error) {
        EXPECT_TRUE(error.kind() == ErrorKind::invalid_argument ||
                    error.kind() == ErrorKind::unsupported)
            << error.what();
      }
    }
  }
}

TEST(KrylovLog, FileThatExists_IsLeftUnlessAllowed) {
  const TemporaryDirectory directory;
  const std::string path = directory / "log";
  write_log(path, request_for_tests(), result_for_tests());
  expect_error([&] { write_log(path, request_for_tests(), result_for_tests()); },
               ErrorKind::invalid_argument, {"exists already"});
  write_log(path, request_for_tests(), result_for_tests(), true);
  EXPECT_EQ(read_log(path).result.status, Status::stagnated);
}

struct ComparisonCase {
  std::string name;
  std::function<void(Log&)> change;
  std::int64_t difference = -1;  // iteration
  std::string scalar;
  std::int64_t divergence = -1;
  bool same_bits = false;
  bool same_verdict = true;
  std::string sentence;
};

void expect_comparison(const Log& a, const ComparisonCase& one) {
  Log b = a;
  b.path = "b";
  one.change(b);
  const LogComparison found = compare(a, b);
  EXPECT_EQ(found.difference ? found.difference->iteration : -1, one.difference);
  EXPECT_EQ(found.difference ? found.difference->scalar : "", one.scalar);
  EXPECT_EQ(found.divergence ? found.divergence->iteration : -1, one.divergence);
  EXPECT_EQ(found.same_bits, one.same_bits);
  EXPECT_EQ(found.same_verdict, one.same_verdict);
  std::string all;
  for (const std::string& sentence : sentences(a, b, found)) {
    all += sentence + "\n";
  }
  EXPECT_NE(all.find(one.sentence), std::string::npos) << all;
  EXPECT_EQ(compare(b, a).difference.has_value(), found.difference.has_value());
}

TEST(KrylovLogComparison, ChangedLogs_AreToldApart) {
  const ComparisonCase cases[] = {
      {.name = "nothing",
       .change = [](Log&) {},
       .same_bits = true,
       .sentence = "All bits of iterations 1 to 3 are the same, in 4 records."},
      {.name = "last bit",
       .change = [](Log& log) { log.result.log[2].alpha = std::nextafter(0.3, 1.0); },
       .difference = 3,
       .scalar = "alpha",
       .sentence = "Up to iteration 3 no residuals differ by more than 10 %."},
      {.name = "sign of zero",
       .change = [](Log& log) { log.result.log[0].rho = {0.05, 0.0}; },
       .difference = 1,
       .scalar = "rho"},
      {.name = "a tenth",
       .change = [](Log& log) { log.result.log[0].residual = 0.57; },
       .difference = 1,
       .scalar = "residual",
       .divergence = 1,
       .sentence = "part, by more than 10 %, at iteration 1"},
      {.name = "finite",
       .change = [](Log& log) { log.result.log[1].residual = 0.1; },
       .difference = 2,
       .scalar = "residual",
       .divergence = 2},
      {.name = "infinite instead of NaN, which look the same",
       .change = [](Log& log) { log.result.log[1].residual = infinity; },
       .same_bits = true},
      {.name = "event",
       .change = [](Log& log) { log.result.log[2].event = Event::restarted; },
       .difference = 3,
       .scalar = "event"},
      {.name = "one record less",
       .change = [](Log& log) { log.result.log.pop_back(); },
       .difference = 3,
       .scalar = "event"},
      {.name = "no records",
       .change = [](Log& log) { log.result.log.clear(); },
       .sentence = "The logs have no iteration in common."},
      {.name = "verdict",
       .change = [](Log& log) { log.result.status = Status::breakdown_rho; },
       .same_verdict = false,
       .sentence = "neither is marginal"},
      {.name = "marginal verdict",
       .change =
           [](Log& log) {
             log.result.status = Status::converged_rtol;
             log.result.margin = 1.5;
             log.result.is_marginal = true;
           },
       .same_verdict = false,
       .sentence = "that of 'b' is marginal"},
      {.name = "request",
       .change =
           [](Log& log) {
             log.request.is_automatic = true;
             log.request.preconditioner.blocks[1] = 50;
             log.result.status = Status::converged_rtol;
           },
       .same_verdict = false,
       .sentence = "method: bicgstab and auto"},
      {.name = "another preconditioner, whose log differs",
       .change =
           [](Log& log) {
             log.request.preconditioner = {Recipe::Kind::jacobi, {}};
             log.result.log[2].alpha = 0.2;
           },
       .difference = 3,
       .scalar = "alpha",
       .sentence =
           "The verdicts are the same, of different solves: see above in what. What differs "
           "is not one of rounding."},
      {.name = "another b",
       .change =
           [](Log& log) {
             log.request.checksums.b = 9;
             log.result.log[2].alpha = 0.2;
           },
       .difference = 3,
       .scalar = "alpha",
       .sentence = "not asked for the same: the numbers of b (checksums 00000000 and 00000009)."},
      {.name = "a log of before, without checksums",
       .change = [](Log& log) { log.request.checksums = {}; },
       .same_bits = true,
       .sentence = "The verdicts are the same, to the bit."},
      {.name = "blocks of another cut",
       .change = [](Log& log) { log.request.preconditioner.blocks[1] = 50; },
       .same_bits = true,
       .sentence = "not asked for the same: blocks of the preconditioner."},
  };
  for (const ComparisonCase& one : cases) {
    SCOPED_TRACE(one.name);
    expect_comparison(Log{"a", "1", request_for_tests(), result_for_tests()}, one);
  }
}

TEST(KrylovLogComparison, Attempts_AreMatchedOneByOne) {
  const auto last = [](Log& log) -> LogRecord& { return log.result.log.back(); };
  const ComparisonCase cases[] = {
      {.name = "nothing",
       .change = [](Log&) {},
       .same_bits = true,
       .sentence = "All bits of 2 attempts (cg, bicgstab) are the same, in 5 records."},
      {.name = "first attempt",
       .change = [](Log& log) { log.result.log[0].residual = 0.4; },
       .difference = 2,
       .scalar = "residual",
       .divergence = 2,
       .sentence = "part, by more than 10 %, at iteration 2 of attempt 1 (cg)"},
      {.name = "second attempt",
       .change = [&](Log& log) { last(log).omega = 1.0; },
       .difference = 3,
       .scalar = "omega",
       .sentence = "omega at iteration 3 of attempt 2 (bicgstab)"},
      {.name = "another method",
       .change = [](Log& log) { log.result.attempts[1].method = Method::minres; },
       .difference = 0,
       .scalar = "method",
       .sentence = "method at iteration 0 of attempt 2 (bicgstab), bicgstab and minres."},
      {.name = "another end of the first one",
       .change = [](Log& log) { log.result.attempts[0].matvecs = 4; },
       .sentence = "All bits of 2 attempts"},
      {.name = "one attempt less",
       .change =
           [](Log& log) {
             log.result.attempts.pop_back();
             log.result.log.resize(1);
           },
       .difference = 0,
       .scalar = "method",
       .sentence = "bicgstab and none"},
      {.name = "the first method alone",
       .change =
           [](Log& log) {
             log.request.is_automatic = false;
             log.result.attempts.clear();
             log.result.log.resize(1);
             log.result.log[0].attempt = 0;
           },
       .sentence = "All bits of 1 attempt (cg) are the same, in 1 records."},
  };
  for (const ComparisonCase& one : cases) {
    SCOPED_TRACE(one.name);
    const Log a{"a", "1", automatic_request(), automatic_result()};
    expect_comparison(a, one);
  }
}

TEST(KrylovLogComparison, LogThatHasLostRecords_IsMatchedByIteration) {
  Log a{"a", "1", request_for_tests(), result_for_tests()};
  a.result.log.clear();
  for (std::int64_t i = 1; i <= 100; ++i) {
    a.result.log.push_back(iteration(i, 1.0 / static_cast<double>(i)));
    a.result.log.push_back({.iteration = i, .event = Event::residual_recomputed, .residual = 1.0});
  }
  Log b = a;
  // Beginning with the second record of iteration 41.
  b.result.log.erase(b.result.log.begin(), b.result.log.begin() + 81);
  const LogComparison found = compare(a, b);
  EXPECT_FALSE(found.difference);
  EXPECT_EQ(found.first, 42);
  EXPECT_EQ(found.last, 100);
  EXPECT_EQ(found.records, 118);
}

template <class T>
class KrylovCapture : public ::testing::Test {};
using Dtypes = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(KrylovCapture, Dtypes);

template <Scalar T>
CsrMatrix<T> small_matrix() {
  return {3, 3, {0, 2, 2, 4}, {0, 2, 1, 2}, {T(1), T(-2), T(0), T(4)}};
}

TYPED_TEST(KrylovCapture, MatrixWrittenAsNpz_IsReadBack) {
  const TemporaryDirectory directory;
  for (const CsrMatrix<TypeParam>& matrix : {small_matrix<TypeParam>(), CsrMatrix<TypeParam>{}}) {
    const std::string path = directory / "A.npz";
    io::OutputFile file(path, true);
    write_npz(file, matrix);
    file.commit();
    EXPECT_LE(std::filesystem::file_size(path), npz_bytes(matrix));
    const auto any = sparse_files::read_npz(path);
    const auto& back = std::get<CsrMatrix<TypeParam>>(any);
    EXPECT_EQ(back.rows, matrix.rows);
    EXPECT_EQ(back.columns, matrix.columns);
    EXPECT_EQ(back.row_pointers, matrix.row_pointers);
    EXPECT_EQ(back.column_indices, matrix.column_indices);
    EXPECT_EQ(back.values, matrix.values);
  }
}

TYPED_TEST(KrylovCapture, Folder_SaysAllOfTheSolve) {
  const TemporaryDirectory directory;
  const std::string folder = directory / "folder";
  const std::vector<TypeParam> b(3, TypeParam(2));
  capture(folder, request_for_tests(), small_matrix<TypeParam>(), b, {}, result_for_tests());
  const CaptureIndex index = read_capture_index(folder + "/");
  EXPECT_EQ(index.request.dtype, dtype_of<TypeParam>);
  EXPECT_EQ(index.request.n, 3);
  EXPECT_EQ(index.request.entries, 4);
  EXPECT_FALSE(index.request.options.use_guess) << "there was none";
  EXPECT_EQ(index.request.options.atol, 0.1);
  EXPECT_EQ(index.result.message, result_for_tests().message);
  EXPECT_EQ(index.files.size(), 3U);
  EXPECT_EQ(read_log(folder + "/log.jsonl").result.log.size(), 4U);
}

TEST(KrylovCaptureIndex, ByteChanged_IsReadOrRefused) {
  const TemporaryDirectory directory;
  const std::string folder = directory / "folder";
  capture<double>(folder, request_for_tests(), small_matrix<double>(), {1, 2, 3}, {4, 5, 6},
                  result_for_tests());
  const std::string path = folder + "/" + index_name;
  const std::string text = testing::read_file(path);
  constexpr std::size_t step = 7;  // a disk takes its time
  for (std::size_t at = 0; at < text.size(); at += step) {
    std::string changed = text;
    changed[at] = at % 2 == 0 ? '7' : '"';
    testing::write_file(path, changed);
    try {
      read_capture_index(folder);
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
    }
  }
}

TEST(KrylovCapturePlace, WhatIsThere_StaysUnlessItIsACapture) {
  const TemporaryDirectory directory;
  const auto write = [&](const std::string& path, const CaptureOptions& options) {
    capture(path, request_for_tests(), small_matrix<double>(), {1, 2, 3}, {}, result_for_tests(),
            options);
  };
  const std::string folder = directory / "folder";
  write(folder, {});
  expect_error([&] { write(folder, {}); }, ErrorKind::invalid_argument,
               {"exists already", "'overwrite'"});
  write(folder, {.overwrite = true});
  EXPECT_EQ(read_capture_index(folder).files.size(), 3U);
  std::filesystem::create_directory(directory / "other");
  expect_error([&] { write(directory / "other", {.overwrite = true}); },
               ErrorKind::invalid_argument, {"is no capture"});
  expect_error([&] { write(directory / "missing/folder", {}); }, ErrorKind::io, {"No such file"});
  expect_error([&] { write(directory / "small", {.max_bytes = 100}); }, ErrorKind::invalid_argument,
               {"bytes", "100 are allowed"});
  expect_error(
      [&] { capture<double>(directory / "odd", {}, small_matrix<double>(), {1, 2}, {}, Result()); },
      ErrorKind::invalid_argument, {"b of 2"});
  EXPECT_EQ(directory.names().size(), 2U) << "something hidden is left";
}

}  // namespace
}  // namespace shardsolve::krylov::files
