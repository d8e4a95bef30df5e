#include "tests/support/case_name.hpp"

#include <shardsolve/outcome.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace shardsolve {
namespace {

using ::testing::HasSubstr;

constexpr Status statuses[] = {Status::ok,
                               Status::not_positive_definite,
                               Status::not_hermitian,
                               Status::nonfinite_input,
                               Status::overflow,
                               Status::not_converged,
                               Status::breakdown,
                               Status::unsuitable_method,
                               Status::nonfinite_product,
                               Status::stopped,
                               Status::underflow,
                               Status::singular,
                               Status::nearly_singular,
                               Status::inaccurate,
                               Status::rank_deficient};

struct Case {
  std::string name;
  Outcome outcome;
  std::vector<std::string> words;  // what happened, where, what to do

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

Location entry(std::int64_t row, std::int64_t column) {
  return Location::in_matrix(GlobalIndex(row), GlobalIndex(column));
}

std::vector<Case> cases() {
  return {
      {"pivot",
       {.status = Status::not_positive_definite, .location = Location::pivot(GlobalIndex(17), 42)},
       {"not positive definite to working precision", "row 17", "42 rows", "diagonal"}},
      {"not_hermitian",
       {.status = Status::not_hermitian, .location = entry(3, 8)},
       {"not Hermitian", "(3, 8)", "(8, 3)", "only one is filled", "T + T^H - diag(T)",
        "(A + A^H) / 2"}},
      {"diagonal_not_real",
       {.status = Status::not_hermitian, .location = entry(4, 4)},
       {"not Hermitian", "entry (4, 4)", "diagonal", "not real", "(A + A^H) / 2"}},
      {"nonfinite_matrix",
       {.status = Status::nonfinite_input, .location = entry(5, 6)},
       {"matrix", "NaN", "row 5", "column 6"}},
      {"nonfinite_right_hand_side",
       {.status = Status::nonfinite_input,
        .location = Location::in_right_hand_sides(GlobalIndex(5), GlobalIndex(6))},
       {"right-hand side", "NaN", "row 5", "column 6"}},
      {"overflow", {.status = Status::overflow}, {"range", "scale", "wider dtype"}},
      {"not_converged", {.status = Status::not_converged}, {"did not converge", "report"}},
      {"breakdown", {.status = Status::breakdown}, {"broke down", "another"}},
      {"unsuitable_method", {.status = Status::unsuitable_method}, {"not Hermitian", "another"}},
      {"nonfinite_product", {.status = Status::nonfinite_product}, {"product", "NaN", "look"}},
      {"stopped", {.status = Status::stopped}, {"stopped as asked"}},
      {"underflow", {.status = Status::underflow}, {"below", "range", "scale", "wider dtype"}},
      {"singular",
       {.status = Status::singular, .location = Location::pivot(GlobalIndex(17), 42)},
       {"singular", "step 43", "line 17", "combinations"}},
      {"nearly_singular",
       {.status = Status::nearly_singular},
       {"singular to working precision", "none of its digits", "regularise"}},
      {"rank_deficient",
       {.status = Status::rank_deficient},
       {"columns", "depend on each other", "lstsq", "ridge"}},
      {"inaccurate", {.status = Status::inaccurate}, {"no answer to rely on", "wider dtype"}},
  };
}

TEST(OutcomeWarning, OfErrorsBeyondRounding_NamesThem) {
  Outcome outcome;
  outcome.residual = 1e-14;
  EXPECT_EQ(outcome.warning(1e-16), "");
  outcome.residual = 1e-6;
  EXPECT_THAT(outcome.warning(1e-16), HasSubstr("the residual is 1.0e-06"));
  EXPECT_EQ(outcome.warning(1e-7), "");
}

class OutcomeMessage : public ::testing::TestWithParam<Case> {};

TEST_P(OutcomeMessage, OfAFailure_SaysWhatWhereAndWhatToDo) {
  const Outcome& outcome = GetParam().outcome;
  EXPECT_FALSE(outcome.ok());
  for (const std::string& word : GetParam().words) {
    EXPECT_THAT(outcome.message(), HasSubstr(word));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OutcomeMessage, ::testing::ValuesIn(cases()), testing::CaseName());

TEST(Outcome, ByDefault_IsOkAndHasNothingToSay) {
  const Outcome outcome;
  EXPECT_TRUE(outcome.ok());
  EXPECT_EQ(outcome.message(), "");
  EXPECT_FALSE(outcome.backward_error);
  EXPECT_FALSE(outcome.rcond);
}

TEST(Outcome, WithoutAPlace_HasAMessageAllTheSame) {
  for (const Status status : statuses) {
    const Outcome outcome{.status = status};
    EXPECT_EQ(outcome.message().empty(), outcome.ok());
  }
}

TEST(Outcome, Statuses_HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const Status status : statuses) {
    names.insert(name(status));
  }
  EXPECT_EQ(names.size(), std::size(statuses));
  EXPECT_EQ(names.count("unknown"), 0U);
}

TEST(Outcome, StatusNumbers_AreThoseOfRecordsAndFiles) {
  for (std::size_t i = 0; i < std::size(statuses); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(statuses[i]), i);
  }
}

TEST(Outcome, OkAndNearlySingular_AreAnswered) {
  for (const Status status : statuses) {
    EXPECT_EQ(class_of(status) == StatusClass::answered,
              status == Status::ok || status == Status::nearly_singular)
        << name(status);
  }
  EXPECT_EQ(class_of(Status::not_positive_definite), StatusClass::numerical);
  EXPECT_EQ(class_of(Status::nonfinite_input), StatusClass::input);
}

TEST(Figures, EachHasARowThatTellsItAndNoOther) {
  std::set<std::string_view> names;
  for (const Figure& figure : Outcome::figures()) {
    EXPECT_FALSE(figure.label.empty() || figure.meaning.empty() || figure.format.empty());
    names.insert(figure.name);
    Outcome outcome;
    EXPECT_FALSE(outcome.*figure.value) << figure.name;
    outcome.*figure.value = 0.25;
    for (const Figure& other : Outcome::figures()) {
      EXPECT_EQ((outcome.*other.value).has_value(), other.name == figure.name);
    }
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"backward_error", "component_error", "forward_error",
                                               "growth", "rcond", "residual", "orthogonality"}));
}

}  // namespace
}  // namespace shardsolve
