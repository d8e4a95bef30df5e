/// How far a long job is, on standard error.
#pragma once

#include <shardsolve/run_options.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace shardsolve::cli {

/// Shows progress as a bar that is redrawn in place on a terminal, and as lines elsewhere. Short
/// jobs show nothing. Safe from several threads.
class ProgressDisplay {
 public:
  enum class Style : std::uint8_t { none, bar, lines };

  /// bar if standard error is a terminal, else lines.
  static Style style_of_standard_error();

  explicit ProgressDisplay(Style style) : style_(style) {}

  void show(const Progress& progress);
  /// Takes the bar away for good: what follows is the answer.
  void finish();
  /// Takes the bar away for a line of text. Says nothing unless there is a bar: elsewhere nobody
  /// sits and waits.
  void say(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  void draw_bar(const Progress& progress, Clock::time_point now);
  void print_line(const Progress& progress, Clock::time_point now);
  void erase_bar();

  std::mutex mutex_;
  Style style_;
  bool drawn_ = false;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_;
  std::string phase_;
  int tenth_ = -1;
};

/// Progress through timed runs of about equal length.
class RunsProgress {
 public:
  explicit RunsProgress(ProgressDisplay& display) : display_(display) {}

  /// What is being timed, and the share of the runs that is done: 0 for the first one.
  void show(const std::string& what, double fraction);

 private:
  ProgressDisplay& display_;
  std::chrono::steady_clock::time_point begin_;
};

/// "4.1 s", "35 s", "12 min" or "2.5 h": for estimates.
std::string rough_duration(double seconds);

}  // namespace shardsolve::cli
