// XLA_FLAGS: what is not understood there ends the program when JAX starts.

#include "findings.hpp"
#include "text.hpp"
#include "xla_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace shardsolve::cli::doctor {
namespace {

constexpr const char* device_count = "xla_force_host_platform_device_count";
constexpr const char* fatal =
    "XLA ends the program with 'Unknown flag in XLA_FLAGS' when it starts";

/// Whether a text is the name of an environment variable: "XLA_PYTHON_CLIENT_PREALLOCATE".
bool is_variable(const std::string& text) {
  return text.find('_') != std::string::npos && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
         });
}

/// What is written, less leading dashes; before '='.
std::string bare_name(const std::string& text) {
  const std::size_t begin = std::min(text.find_first_not_of('-'), text.size());
  return text.substr(begin, std::min(text.find('=', begin), text.size()) - begin);
}

std::string bare(const std::string& text) {
  return text.substr(std::min(text.find_first_not_of('-'), text.size()));
}

/// Of flags that are not in common use nothing is known.
bool needs_value(const std::string& name) {
  return common_xla_flags().count(name) != 0 && common_xla_switches().count(name) == 0;
}

/// How to set what is no flag: "XLA_PYTHON_CLIENT_PREALLOCATE=false".
std::string variable_of_its_own(const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string name = text.substr(0, equals);
  return fmt::format("{} is an environment variable of its own: export {}", name,
                     equals < text.size() ? shell_setting(name, text.substr(equals + 1)) : name);
}

void add(Findings& findings, const char* code, std::string found, std::string remedy) {
  findings.push_back({Severity::error, code, std::move(found), fatal, std::move(remedy)});
}

const std::set<std::string>& known_flags(const Surroundings& s) {
  return s.python.xla_flags ? *s.python.xla_flags : common_xla_flags();
}

/// The flag that a name stands for: itself, or one that is spelt nearly so. Empty if there is none:
/// at a flag that it does not know XLA ends the program, so none such may be advised.
std::string known_flag(const std::string& name, const Surroundings& s) {
  const auto& known = known_flags(s);
  if (known.count(name) != 0) {
    return name;
  }
  const std::string common = nearest(name, common_xla_flags());
  return known.count(common) != 0 ? common : nearest(name, known);
}

/// "jaxlib 0.10.2 does not know".
std::string not_known(const Surroundings& s) {
  return s.python.xla_flags
             ? fmt::format("jaxlib {} does not know", s.python.version_of("jaxlib"))
             : "is not one of the flags in common use (there is no jaxlib here to ask)";
}

/// What is written, as that flag: "-xla_dump_ot=/a" is "--xla_dump_to=/a".
std::string as_flag(const std::string& flag, const std::string& text) {
  return "--" + flag + text.substr(std::min(text.find('='), text.size()));
}

/// A text that XLA takes for the name of a file, as it does not begin with a dash.
void judge_file_name(const std::string& text, const Surroundings& s, Findings& findings) {
  constexpr const char* consequence =
      "XLA takes it for the name of a file with flags, and ends the program when there is none";
  const std::string name = bare_name(text);
  std::string found = fmt::format("XLA_FLAGS is '{}', which does not begin with '--'", text);
  const char* code = "xla-not-a-flag";
  std::string remedy;
  if (is_variable(name)) {
    remedy = variable_of_its_own(text);
  } else if (const std::string flag = known_flag(name, s); !flag.empty()) {
    code = "xla-missing-dashes";
    remedy = fmt::format("export {}", shell_setting("XLA_FLAGS", as_flag(flag, text)));
  } else {
    found += fmt::format("; {} {}", s.python.xla_flags ? "a flag that" : "it", not_known(s));
    remedy = "remove it; flags are --name=value, with blanks between them";
  }
  findings.push_back({Severity::error, code, std::move(found), consequence, std::move(remedy)});
}

/// Names that are known not to be XLA's flags. Whether this is one.
bool judge_other_setting(const XlaWord& word, Findings& findings) {
  const std::string name = bare_name(word.text);
  if (is_variable(name)) {
    add(findings, "xla-not-a-flag", fmt::format("XLA_FLAGS holds '{}'", word.text),
        variable_of_its_own(bare(word.text)));
    return true;
  }
  if (name.compare(0, 4, "jax_") == 0) {
    std::string variable = name;
    std::transform(variable.begin(), variable.end(), variable.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    add(findings, "xla-not-a-flag", fmt::format("XLA_FLAGS holds '{}'", word.text),
        fmt::format("it is a setting of JAX: export {}, or jax.config.update in the program",
                    shell_setting(variable, word.value.value_or("true"))));
    return true;
  }
  if (name.compare(0, 8, "xla_tpu_") == 0) {
    add(findings, "xla-not-a-flag", fmt::format("XLA_FLAGS holds '{}'", word.text),
        "flags for TPUs go into LIBTPU_INIT_ARGS");
    return true;
  }
  return false;
}

bool is_truth(const std::string& value) {
  static const std::set<std::string> understood{"true", "false", "1", "0"};
  return understood.count(lower_case(value)) != 0;
}

/// Whether a word that follows a flag without a value may be meant as that.
bool may_be_value(const std::string& word, const XlaWord& flag, const Surroundings& s) {
  if (flag.value || known_flags(s).count(flag.name) == 0) {
    return false;
  }
  if (common_xla_switches().count(flag.name) != 0) {
    return is_truth(word);
  }
  return needs_value(flag.name) || word.find('=') == std::string::npos;
}

/// A word without two dashes. XLA reads on behind those that do not begin with a dash at all.
void judge_stray(const XlaWord& word, const XlaWord* before, const Surroundings& s,
                 Findings& findings) {
  const bool dash = word.text.front() == '-';
  const Severity severity = dash ? Severity::error : Severity::warning;
  const char* consequence = dash ? fatal : "XLA ignores it";
  const std::string flag = known_flag(bare_name(word.text), s);
  std::string found = fmt::format("XLA_FLAGS holds '{}'", word.text);
  if (!flag.empty()) {
    findings.push_back(
        {severity, "xla-missing-dashes", std::move(found), consequence,
         fmt::format("put two dashes before it: {}", as_flag(flag, bare(word.text)))});
  } else if (!dash && before != nullptr && may_be_value(word.text, *before, s)) {
    findings.push_back({needs_value(before->name) ? Severity::error : Severity::warning,
                        "xla-missing-equals",
                        fmt::format("XLA_FLAGS holds '{} {}'", before->text, word.text),
                        "XLA ignores the second word, and ends the program if the first needs a "
                        "value",
                        fmt::format("put = between them: {}={}", before->text, word.text)});
  } else {
    if (dash) {
      found += fmt::format(", which {}", not_known(s));
    }
    findings.push_back({severity, "xla-not-a-flag", std::move(found), consequence,
                        "remove it; flags are --name=value, with blanks between them"});
  }
}

void judge_unknown(const XlaWord& word, const Surroundings& s, Findings& findings) {
  const std::string meant = known_flag(word.name, s);
  const std::string found = fmt::format("XLA_FLAGS holds --{}, which {}", word.name, not_known(s));
  const std::string remedy = meant.empty()
                                 ? "remove it, or look its name up: flags come and go with versions"
                                 : fmt::format("--{} is probably meant", meant);
  const bool certain = s.python.xla_flags || !meant.empty();
  findings.push_back(
      {certain ? Severity::error : Severity::warning, "xla-unknown-flag", found, fatal, remedy});
}

/// Values of flags in common use, as far as their kind goes.
void judge_value(const XlaWord& word, Findings& findings) {
  const std::string found = fmt::format("XLA_FLAGS holds '{}'", word.text);
  if (word.name == device_count) {
    const auto count = to_number<std::int64_t>(word.value.value_or(""));
    if (!count || *count < 1) {
      add(findings, "xla-bad-value", found,
          fmt::format("give the number of CPU devices: --{}=4", device_count));
    }
  } else if (!word.value && needs_value(word.name)) {
    add(findings, "xla-bad-value", found, fmt::format("give its value: --{}=...", word.name));
  } else if (word.value && common_xla_switches().count(word.name) != 0 && !is_truth(*word.value)) {
    findings.push_back({Severity::error, "xla-bad-value", found,
                        "XLA ends the program with 'Couldn't interpret value' when it starts",
                        fmt::format("--{0}=true or --{0}=false", word.name)});
  }
}

void judge_word(const XlaWord& word, const XlaWord* before, const XlaWord* next,
                const Surroundings& s, Findings& findings) {
  if (word.text.find(",--") != std::string::npos || word.text.back() == ',') {
    findings.push_back({Severity::error, "xla-comma",
                        fmt::format("XLA_FLAGS holds '{}', with a comma", word.text),
                        "XLA takes the comma and what follows for a part of the value: it ends the "
                        "program, or ignores the flags that are meant",
                        "put blanks between flags, no commas"});
    return;
  }
  if (judge_other_setting(word, findings)) {
    return;
  }
  if (word.name.empty()) {
    judge_stray(word, before, s, findings);
    return;
  }
  if (known_flags(s).count(word.name) == 0) {
    judge_unknown(word, s, findings);
  } else if (word.value || next == nullptr || !next->name.empty()) {
    judge_value(word, findings);
  }
}

void judge_twice(const std::vector<XlaWord>& words, Findings& findings) {
  std::map<std::string, const XlaWord*> last;
  for (const XlaWord& word : words) {
    const XlaWord*& before = last[word.name];
    if (before != nullptr && !word.name.empty() && before->value != word.value) {
      findings.push_back({Severity::warning, "xla-flag-twice",
                          fmt::format("XLA_FLAGS holds {} and {}", before->text, word.text),
                          "the last one counts", fmt::format("remove {}", before->text)});
    }
    before = &word;
  }
}

/// Triton's products compile for compute capability 8.0 and newer: XLA gives those of other GPUs to
/// cuBLAS, whatever the flag says (gpu_compiler.cc).
void judge_triton(const Surroundings& s, const std::vector<XlaWord>& words, Findings& findings) {
  const auto old = std::find_if(s.cuda.gpus.begin(), s.cuda.gpus.end(),
                                [](const mesh::GpuFacts& gpu) { return gpu.major < 8; });
  if (old == s.cuda.gpus.end()) {
    return;
  }
  for (const XlaWord& word : words) {
    const bool is_triton =
        word.name == "xla_gpu_enable_triton_gemm" || word.name == "xla_gpu_triton_gemm_any";
    if (is_triton && lower_case(word.value.value_or("true")) == "true") {
      findings.push_back(
          {Severity::note, "xla-triton-old-gpu",
           fmt::format("XLA_FLAGS holds {}, and a GPU, {}, is of compute capability {}.{}",
                       word.text, old->name, old->major, old->minor),
           "Triton's matrix products need 8.0: on such a GPU cuBLAS makes them all the same",
           fmt::format("leave {} out", word.text)});
    }
  }
}

/// Flags that the program which runs this was started with, and that it has not only given another
/// value.
void judge_replaced(const Surroundings& s, const std::vector<XlaWord>& words, Findings& findings) {
  std::vector<std::string> lost;
  for (const XlaWord& before : xla_words(s.xla_flags_of_parent)) {
    const bool kept = std::any_of(words.begin(), words.end(),
                                  [&](const XlaWord& word) { return word.name == before.name; });
    if (!before.name.empty() && !kept) {
      lost.push_back(before.text);
    }
  }
  if (!lost.empty()) {
    findings.push_back(
        {Severity::warning, "xla-flags-replaced",
         fmt::format("the Python program that runs this was started with {} in XLA_FLAGS, and has "
                     "taken {} out",
                     fmt::join(lost, " "), lost.size() == 1 ? "it" : "them"),
         "os.environ['XLA_FLAGS'] = ... replaces what the shell has set, all of it",
         "append, before JAX starts: os.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + "
         "' --...'"});
  }
}

}  // namespace

void judge_xla_flags(const Surroundings& s, Findings& findings) {
  std::string text = trimmed(value_of(s.environment, "XLA_FLAGS"));
  judge_replaced(s, xla_words(s.xla_flags_file.value_or(text)), findings);
  if (text.empty()) {
    return;
  }
  if (text.front() != '-') {
    if (!s.xla_flags_file) {
      judge_file_name(text, s, findings);
      return;
    }
    text = *s.xla_flags_file;
  }
  const std::vector<XlaWord> words = xla_words(text);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].text.empty()) {
      judge_word(words[i], i > 0 ? &words[i - 1] : nullptr,
                 i + 1 < words.size() ? &words[i + 1] : nullptr, s, findings);
    }
  }
  judge_twice(words, findings);
  judge_triton(s, words, findings);
}

}  // namespace shardsolve::cli::doctor
