// Findings about XLA_FLAGS and the JAX of the Python on PATH.

#include "cli/doctor/xla_flags.hpp"
#include "tests/support/case_name.hpp"
#include "tests/support/doctor_surroundings.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace shardsolve::cli::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A JAX that can be asked which flags it knows.
Surroundings with_flags_of_jaxlib() {
  Surroundings s = healthy();
  s.python.xla_flags = std::set<std::string>{"xla_dump_to", "xla_gpu_autotune_level", "xla_new_one",
                                             "xla_force_host_platform_device_count"};
  return s;
}

void flags(Surroundings& s, const std::string& text) { s.environment["XLA_FLAGS"] = text; }

std::vector<Case> flag_cases() {
  return {
      {"misspelt",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_force_host_platfrom_device_count=4"); },
       "xla-unknown-flag",
       Severity::error,
       {"--xla_force_host_platfrom_device_count", "Unknown flag in XLA_FLAGS",
        "--xla_force_host_platform_device_count is probably meant"}},
      {"misspelt_and_asked",
       with_flags_of_jaxlib,
       [](Surroundings& s) { flags(s, "--xla_gpu_autotune_levl=2"); },
       "xla-unknown-flag",
       Severity::error,
       {"jaxlib 0.10.2 does not know", "--xla_gpu_autotune_level is probably"}},
      {"hyphens",
       healthy,
       [](Surroundings& s) { flags(s, "--xla-dump-to=/tmp"); },
       "xla-unknown-flag",
       Severity::error,
       {"--xla_dump_to is probably meant"}},
      {"of_another_version",
       with_flags_of_jaxlib,
       [](Surroundings& s) { flags(s, "--xla_cpu_use_thunk_runtime=true"); },
       "xla-unknown-flag",
       Severity::error,
       {"jaxlib 0.10.2 does not know", "come and go with versions"}},
      {"far_from_all_and_nobody_to_ask",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_something_quite_different=1"); },
       "xla-unknown-flag",
       Severity::warning,
       {"not one of the flags in common use"}},
      {"no_dashes",
       healthy,
       [](Surroundings& s) { flags(s, " xla_dump_to=/tmp"); },
       "xla-missing-dashes",
       Severity::error,
       {"name of a file", "export XLA_FLAGS=--xla_dump_to=/tmp"}},
      {"no_dashes_and_a_path_with_blanks",
       healthy,
       [](Surroundings& s) { flags(s, "xla_dump_to=/my 'old' dumps"); },
       "xla-missing-dashes",
       Severity::error,
       {R"(export XLA_FLAGS='--xla_dump_to=/my '\''old'\'' dumps')"}},
      {"variable_with_a_value_of_several_words",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_hlo_profile XLA_DUMP='a b'"); },
       "xla-not-a-flag",
       Severity::error,
       {"export XLA_DUMP='a b'"}},
      {"one_dash",
       healthy,
       [](Surroundings& s) { flags(s, "-xla_dump_to=/tmp"); },
       "xla-missing-dashes",
       Severity::error,
       {"--xla_dump_to=/tmp"}},
      {"no_dashes_later",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_dump_to=/tmp xla_gpu_autotune_level=2"); },
       "xla-missing-dashes",
       Severity::warning,
       {"ignores it", "--xla_gpu_autotune_level=2"}},
      {"variable_alone",
       healthy,
       [](Surroundings& s) { flags(s, "XLA_PYTHON_CLIENT_PREALLOCATE=false"); },
       "xla-not-a-flag",
       Severity::error,
       {"export XLA_PYTHON_CLIENT_PREALLOCATE=false"}},
      {"variable_as_flag",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_dump_to=/a --XLA_PYTHON_CLIENT_MEM_FRACTION=.5"); },
       "xla-not-a-flag",
       Severity::error,
       {"export XLA_PYTHON_CLIENT_MEM_FRACTION=.5"}},
      {"setting_of_jax",
       healthy,
       [](Surroundings& s) { flags(s, "--jax_enable_x64=true"); },
       "xla-not-a-flag",
       Severity::error,
       {"export JAX_ENABLE_X64=true"}},
      {"flag_of_tpus",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_tpu_use_it=1"); },
       "xla-not-a-flag",
       Severity::error,
       {"LIBTPU_INIT_ARGS"}},
      {"stray_word",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_dump_to=/tmp please"); },
       "xla-not-a-flag",
       Severity::warning,
       {"'please'", "ignores it"}},
      {"word_that_is_no_flag",
       healthy,
       [](Surroundings& s) { flags(s, "intra_op_parallelism_threads=1"); },
       "xla-not-a-flag",
       Severity::error,
       {"name of a file", "not one of the flags in common use", "remove it"}},
      {"word_that_is_no_flag_and_asked",
       with_flags_of_jaxlib,
       [](Surroundings& s) { flags(s, "intra_op_parallelism_threads=1"); },
       "xla-not-a-flag",
       Severity::error,
       {"jaxlib 0.10.2 does not know", "remove it"}},
      {"word_that_is_no_flag_with_one_dash",
       with_flags_of_jaxlib,
       [](Surroundings& s) { flags(s, "-intra_op_parallelism_threads=1"); },
       "xla-not-a-flag",
       Severity::error,
       {"jaxlib 0.10.2 does not know", "remove it"}},
      {"word_that_is_no_flag_behind_a_switch",
       healthy,
       [](Surroundings& s) {
         flags(s, "--xla_cpu_multi_thread_eigen intra_op_parallelism_threads=1");
       },
       "xla-not-a-flag",
       Severity::warning,
       {"XLA ignores it", "remove it"}},
      {"no_dashes_and_of_another_version",
       with_flags_of_jaxlib,
       [](Surroundings& s) { flags(s, "--xla_dump_to=/a xla_cpu_use_thunk_runtime=true"); },
       "xla-not-a-flag",
       Severity::warning,
       {"XLA ignores it", "remove it"}},
      {"no_dashes_and_misspelt",
       with_flags_of_jaxlib,
       [](Surroundings& s) { flags(s, "xla-dump_ot=/a"); },
       "xla-missing-dashes",
       Severity::error,
       {"export XLA_FLAGS=--xla_dump_to=/a"}},
      {"blank_for_equals",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_force_host_platform_device_count 4"); },
       "xla-missing-equals",
       Severity::error,
       {"--xla_force_host_platform_device_count=4"}},
      {"blank_for_equals_of_a_switch",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_gpu_deterministic_ops true"); },
       "xla-missing-equals",
       Severity::warning,
       {"--xla_gpu_deterministic_ops=true"}},
      {"comma",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_dump_to=/a,--xla_gpu_autotune_level=2"); },
       "xla-comma",
       Severity::error,
       {"put blanks between"}},
      {"comma_and_blank",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_gpu_autotune_level=2, --xla_dump_to=/a"); },
       "xla-comma",
       Severity::error,
       {"part of the value"}},
      {"count_in_words",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_force_host_platform_device_count=four"); },
       "xla-bad-value",
       Severity::error,
       {"--xla_force_host_platform_device_count=4"}},
      {"no_count",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_force_host_platform_device_count"); },
       "xla-bad-value",
       Severity::error,
       {"number of CPU devices"}},
      {"value_is_missing",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_dump_to --xla_gpu_deterministic_ops"); },
       "xla-bad-value",
       Severity::error,
       {"'--xla_dump_to'", "--xla_dump_to=...", "Unknown flag"}},
      {"blank_for_equals_of_a_value",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_dump_to /tmp"); },
       "xla-missing-equals",
       Severity::error,
       {"--xla_dump_to=/tmp"}},
      {"yes_for_true",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_gpu_deterministic_ops=yes"); },
       "xla-bad-value",
       Severity::error,
       {"Couldn't interpret", "--xla_gpu_deterministic_ops=true"}},
      {"nothing_for_true",
       healthy,
       [](Surroundings& s) { flags(s, "--xla_gpu_deterministic_ops="); },
       "xla-bad-value",
       Severity::error,
       {"--xla_gpu_deterministic_ops=false"}},
      {"twice",
       healthy,
       [](Surroundings& s) {
         flags(s, "--xla_gpu_autotune_level=2 --xla_dump_to=/a --xla_gpu_autotune_level=3");
       },
       "xla-flag-twice",
       Severity::warning,
       {"--xla_gpu_autotune_level=2 and --xla_gpu_autotune_level=3", "last one counts"}},
      {"replaced_by_the_program",
       healthy,
       [](Surroundings& s) {
         s.xla_flags_of_parent =
             "--xla_dump_to=/a --xla_gpu_autotune_level=2 --xla_gpu_deterministic_ops";
         flags(s, "--xla_gpu_autotune_level=3");
       },
       "xla-flags-replaced",
       Severity::warning,
       {"--xla_dump_to=/a --xla_gpu_deterministic_ops", "taken them out", "os.environ.get("}},
      {"taken_away_by_the_program",
       healthy,
       [](Surroundings& s) { s.xla_flags_of_parent = "--xla_dump_to=/a"; },
       "xla-flags-replaced",
       Severity::warning,
       {"--xla_dump_to=/a", "taken it out"}},
      {"in_a_file",
       healthy,
       [](Surroundings& s) {
         flags(s, "/etc/xla.flags");
         s.xla_flags_file = "--xla_dump_too=/a\n";
       },
       "xla-unknown-flag",
       Severity::error,
       {"--xla_dump_to is probably meant"}},
  };
}

void install(Surroundings& s, const char* package, const char* version) {
  s.python.packages[package] = version;
}

std::vector<Case> jax_cases() {
  static constexpr auto without_plugin = [](Surroundings& s) {
    s.python.packages.erase("jax-cuda13-plugin");
    s.python.packages.erase("jax-cuda13-pjrt");
  };
  return {
      {"jax_too_new",
       healthy,
       [](Surroundings& s) { install(s, "jax", "0.13.0"); },
       "jax-version",
       Severity::error,
       {"jax is version 0.13.0", "0.8.1", "pip install"}},
      {"jaxlib_too_old",
       healthy,
       [](Surroundings& s) { install(s, "jaxlib", "0.8.0"); },
       "jax-version",
       Severity::error,
       {"jaxlib is version 0.8.0"}},
      {"jaxlib_newer",
       healthy,
       [](Surroundings& s) { install(s, "jaxlib", "0.11.0"); },
       "jaxlib-newer",
       Severity::error,
       {"0.11.0 is newer than jax 0.10.2"}},
      {"jaxlib_missing",
       healthy,
       [](Surroundings& s) { s.python.packages.erase("jaxlib"); },
       "jaxlib-missing",
       Severity::error,
       {"jax 0.10.2 has no jaxlib"}},
      {"jax_missing",
       healthy,
       [](Surroundings& s) { s.python.packages.erase("jax"); },
       "jax-missing",
       Severity::error,
       {"shardsolve 0.1.0 and no jax"}},
      {"no_plugin",
       healthy_with_gpus,
       without_plugin,
       "jax-without-gpu",
       Severity::warning,
       {"jax-cuda13-plugin", "/usr/bin/python3", "shardsolve[cuda13]"}},
      {"no_plugin_and_a_driver_of_cuda_12",
       healthy_with_gpus,
       [](Surroundings& s) {
         without_plugin(s);
         s.cuda.runtime = 12090;
       },
       "jax-without-gpu",
       Severity::warning,
       {"jax-cuda12-plugin", "shardsolve[cuda12]"}},
      {"plugin_of_another_version",
       healthy_with_gpus,
       [](Surroundings& s) { install(s, "jax-cuda13-plugin", "0.10.1"); },
       "jax-plugin-version",
       Severity::warning,
       {"jax-cuda13-plugin is version 0.10.1, jaxlib is version 0.10.2"}},
      {"half_of_the_plugin",
       healthy_with_gpus,
       [](Surroundings& s) { s.python.packages.erase("jax-cuda13-pjrt"); },
       "jax-plugin-version",
       Severity::warning,
       {"jax-cuda13-pjrt is missing"}},
      {"both_plugins",
       healthy_with_gpus,
       [](Surroundings& s) {
         install(s, "jax-cuda12-plugin", "0.10.2");
         install(s, "jax-cuda12-pjrt", "0.10.2");
       },
       "jax-two-plugins",
       Severity::warning,
       {"pip uninstall jax-cuda12-plugin"}},
      {"both_plugins_and_a_driver_of_cuda_12",
       healthy_with_gpus,
       [](Surroundings& s) {
         install(s, "jax-cuda12-plugin", "0.10.2");
         install(s, "jax-cuda12-pjrt", "0.10.2");
         s.cuda.runtime = 12090;
       },
       "jax-two-plugins",
       Severity::warning,
       {"pip uninstall jax-cuda13-plugin"}},
      {"cuda_12_beside_13",
       healthy_with_gpus,
       [](Surroundings& s) {
         s.python.packages = {{"jax", "0.10.2"},
                              {"jaxlib", "0.10.2"},
                              {"jax-cuda12-plugin", "0.10.2"},
                              {"jax-cuda12-pjrt", "0.10.2"}};
       },
       "mixed-cuda",
       Severity::warning,
       {"CUDA 12", "CUDA 13", "shardsolve[cuda13]"}},
      {"cpu_beside_gpu",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["JAX_PLATFORMS"] = "cpu"; },
       "jax-on-cpu",
       Severity::warning,
       {"JAX_PLATFORMS=cpu"}},
      {"cpu_beside_gpu_by_the_older_name",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["JAX_PLATFORM_NAME"] = "cpu"; },
       "jax-on-cpu",
       Severity::warning,
       {"there is a GPU"}},
      {"platform_misspelt",
       healthy,
       [](Surroundings& s) { s.environment["JAX_PLATFORMS"] = "cdua"; },
       "jax-unknown-platform",
       Severity::error,
       {"'cuda' is probably meant"}},
      {"platform_with_a_blank",
       healthy_with_gpus,
       [](Surroundings& s) { s.environment["JAX_PLATFORMS"] = "cuda, cpu"; },
       "jax-unknown-platform",
       Severity::error,
       {"' cpu' is no platform"}},
      {"platform_of_a_plugin",
       healthy,
       [](Surroundings& s) { s.environment["JAX_PLATFORMS"] = "neuromancer"; },
       "jax-unknown-platform",
       Severity::warning,
       {"unless a plugin"}},
      {"platform_without_support",
       healthy,
       [](Surroundings& s) { s.environment["JAX_PLATFORMS"] = "cuda"; },
       "jax-platform-missing",
       Severity::error,
       {"no support for GPUs", "does not start"}},
      {"tpu_without_its_library",
       healthy,
       [](Surroundings& s) { s.environment["JAX_PLATFORMS"] = "tpu"; },
       "jax-platform-missing",
       Severity::error,
       {"no support for tpu", "jax[tpu]"}},
      {"rocm_behind_the_cpu",
       healthy,
       [](Surroundings& s) { s.environment["JAX_PLATFORMS"] = "cpu,rocm"; },
       "jax-platform-missing",
       Severity::error,
       {"no support for rocm", "jax-rocm7-plugin"}},
      {"metal_without_its_plugin",
       healthy,
       [](Surroundings& s) { s.environment["JAX_PLATFORMS"] = "METAL"; },
       "jax-platform-missing",
       Severity::error,
       {"jax-metal"}},
      {"metal_in_small_letters",
       healthy,
       [](Surroundings& s) {
         s.environment["JAX_PLATFORMS"] = "metal";
         s.python.packages["jax-metal"] = "0.1.1";
       },
       "jax-unknown-platform",
       Severity::error,
       {"'METAL' is probably meant"}},
      {"debug_nans",
       healthy,
       [](Surroundings& s) { s.environment["JAX_DEBUG_NANS"] = "True"; },
       "jax-debug-nans",
       Severity::note,
       {"jax.debug_nans(False)"}},
  };
}

class DoctorOfJax : public ::testing::TestWithParam<Case> {};

TEST_P(DoctorOfJax, OneThingIsWrong_ExactlyThatIsFound) { expect_finding(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Flags, DoctorOfJax, ::testing::ValuesIn(flag_cases()),
                         testing::CaseName());
INSTANTIATE_TEST_SUITE_P(Packages, DoctorOfJax, ::testing::ValuesIn(jax_cases()),
                         testing::CaseName());

TEST(Doctor, ValuesOfSwitches_NothingIsFound) {
  for (const char* value : {"", "=true", "=False", "=1", "=0", "=TRUE"}) {
    Surroundings s = healthy();
    flags(s, fmt::format("--xla_gpu_deterministic_ops{}", value));
    EXPECT_TRUE(judge(s).empty()) << value;
  }
}

TEST(Doctor, KnownFlags_NothingIsFound) {
  Surroundings s = with_flags_of_jaxlib();
  flags(s, "--xla_dump_to='/a b' --xla_new_one --xla_gpu_autotune_level=2 --xla_dump_to=\"/a b\"");
  EXPECT_TRUE(judge(s).empty());
  flags(s, "  ");
  EXPECT_TRUE(judge(s).empty());
}

TEST(Doctor, FlagsThatTheProgramHasAddedTo_NothingIsFound) {
  Surroundings s = healthy();
  s.xla_flags_of_parent = "--xla_dump_to=/a";
  flags(s, "--xla_dump_to=/a --xla_gpu_autotune_level=2");
  EXPECT_TRUE(judge(s).empty());
  flags(s, "/etc/xla.flags");
  s.xla_flags_file = "--xla_dump_to=/a\n";
  EXPECT_TRUE(judge(s).empty());
}

/// XLA ends the program at a flag that it does not know, so none such is advised.
TEST(Doctor, WordThatIsNoFlag_IsNotAdvisedAsOne) {
  for (const Surroundings& with : {healthy(), with_flags_of_jaxlib()}) {
    for (const char* before :
         {"", "-", "--xla_dump_to=/a ", "--xla_dump_to=/a -", "--xla_gpu_deterministic_ops "}) {
      Surroundings s = with;
      flags(s, std::string(before) + "intra_op_parallelism_threads=1");
      const Findings found = judge(s);
      EXPECT_FALSE(found.empty()) << before;
      for (const Finding& finding : found) {
        EXPECT_THAT(finding.remedy, Not(HasSubstr("-intra_op"))) << before;
        EXPECT_THAT(finding.remedy, Not(HasSubstr("=intra_op"))) << before;
      }
    }
  }
}

TEST(Doctor, PlatformWithItsPlugin_NothingIsFound) {
  for (const auto& [platform, package] :
       {std::pair{"tpu", "libtpu"}, std::pair{"rocm,cpu", "jax-rocm60-plugin"},
        std::pair{"METAL", "jax-metal"}}) {
    Surroundings s = healthy();
    s.environment["JAX_PLATFORMS"] = platform;
    s.python.packages[package] = "0.1";
    EXPECT_TRUE(judge(s).empty()) << platform;
  }
  Surroundings s = healthy();
  s.environment = {{"JAX_PLATFORMS", "tpu"}, {"TPU_LIBRARY_PATH", "/lib/libtpu.so"}};
  EXPECT_TRUE(judge(s).empty());
}

TEST(Doctor, NoPython_NothingIsFound) {
  Surroundings s = healthy();
  s.python = {};
  EXPECT_TRUE(judge(s).empty());
}

TEST(XlaFlags, Words_AreSeparatedByBlanksOutsideQuotes) {
  std::vector<std::string> texts;
  for (const XlaWord& word : xla_words(" --a=1\t--b='x y'\n--c stray")) {
    texts.push_back(word.text);
  }
  EXPECT_THAT(texts, ElementsAre("--a=1", "--b=x y", "--c", "stray"));
  const XlaWord word = xla_words("--b='x=y'").front();
  EXPECT_EQ(word.name, "b");
  EXPECT_EQ(word.value, "x=y");
}

TEST(XlaFlags, EditDistance_CountsOneForEachKindOfSlip) {
  EXPECT_EQ(edit_distance("flag", "flag"), 0U);
  EXPECT_EQ(edit_distance("flag", "flagg"), 1U);
  EXPECT_EQ(edit_distance("flag", "lag"), 1U);
  EXPECT_EQ(edit_distance("flag", "flog"), 1U);
  EXPECT_EQ(edit_distance("flag", "falg"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(XlaFlags, Nearest_IsNothingFarAway) {
  const std::set<std::string> names{"xla_dump_to", "xla_hlo_profile"};
  EXPECT_EQ(nearest("xla_dump_ot", names), "xla_dump_to");
  EXPECT_EQ(nearest("xla-dump-ot", names), "xla_dump_to");
  EXPECT_EQ(nearest("xla_gpu_autotune_level", names), "");
  EXPECT_EQ(nearest("xla_enable_it", {"xla_disable_it"}), "") << "the contrary is not meant";
}

}  // namespace
}  // namespace shardsolve::cli::doctor
