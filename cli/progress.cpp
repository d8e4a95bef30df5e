#include "progress.hpp"

#include "terminal.hpp"

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace shardsolve::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto bar_after = 300ms;      // of the job: short ones show nothing
constexpr auto bar_interval = 100ms;   // between two drawings
constexpr auto lines_after = 2s;       // of the job
constexpr auto line_interval = 1s;     // at least, between two lines
constexpr auto longest_pause = 10s;    // after which a line comes even without a step of 10 %
constexpr int narrowest_for_bar = 64;  // columns
constexpr int bar_width = 30;
constexpr double needs_no_estimate = 0.02;

int terminal_columns() {
  struct winsize size{};
  constexpr int usual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual;
}

/// "  54 %  about 12 s left"; what is not known is left out.
std::string figures(const Progress& progress) {
  if (progress.fraction <= 0.0) {
    return "";
  }
  std::string text = fmt::format("{:3.0f} %", std::floor(100.0 * progress.fraction));
  if (progress.fraction > needs_no_estimate && progress.fraction < 1.0) {
    text += fmt::format("  about {} left", rough_duration(progress.remaining));
  }
  return text;
}

std::string bar(double fraction) {
  const int full = static_cast<int>(std::floor(std::clamp(fraction, 0.0, 1.0) * bar_width));
  return fmt::format("[{}{}]", std::string(static_cast<std::size_t>(full), '#'),
                     std::string(static_cast<std::size_t>(bar_width - full), '.'));
}

}  // namespace

ProgressDisplay::Style ProgressDisplay::style_of_standard_error() {
  const char* term = std::getenv("TERM");
  const bool can_redraw = term != nullptr && std::string_view(term) != "dumb";
  return ::isatty(STDERR_FILENO) != 0 && can_redraw ? Style::bar : Style::lines;
}

void ProgressDisplay::show(const Progress& progress) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  switch (style_) {
    case Style::none:
      break;
    case Style::bar:
      draw_bar(progress, now);
      break;
    case Style::lines:
      print_line(progress, now);
      break;
  }
}

void ProgressDisplay::draw_bar(const Progress& progress, Clock::time_point now) {
  if (now - begin_ < bar_after || now - last_ < bar_interval) {
    return;
  }
  last_ = now;
  drawn_ = true;
  const int columns = terminal_columns();
  std::string line = fmt::format("{:<9} ", progress.phase);
  if (columns >= narrowest_for_bar) {
    line += bar(progress.fraction) + " ";
  }
  line += figures(progress);
  line.resize(std::min(line.size(), static_cast<std::size_t>(columns - 1)));
  print(stderr, "\r" + line + "\x1b[K");  // the escape erases the rest of the line
}

void ProgressDisplay::print_line(const Progress& progress, Clock::time_point now) {
  constexpr double tenths = 10.0;
  const int tenth = static_cast<int>(std::floor(tenths * progress.fraction));
  const bool news = progress.phase != phase_ || tenth != tenth_;
  const auto pause = now - last_;
  if (now - begin_ < lines_after || pause < (news ? line_interval : longest_pause)) {
    return;
  }
  last_ = now;
  phase_ = progress.phase;
  tenth_ = tenth;
  const std::string text = figures(progress);
  print(stderr, fmt::format("shardsolve: {}{}{}\n", progress.phase, text.empty() ? "" : " ", text));
}

void ProgressDisplay::erase_bar() {
  if (drawn_) {
    print(stderr, "\r\x1b[K");
    drawn_ = false;
  }
}

void ProgressDisplay::finish() {
  const std::lock_guard lock(mutex_);
  erase_bar();
  style_ = Style::none;
}

void ProgressDisplay::say(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (style_ == Style::bar) {
    erase_bar();
    print(stderr, text + "\n");
  }
}

void RunsProgress::show(const std::string& what, double fraction) {
  const auto now = std::chrono::steady_clock::now();
  if (!(fraction > 0.0)) {
    begin_ = now;
    fraction = 0.0;
  }
  const double taken = std::chrono::duration<double>(now - begin_).count();
  display_.show({.phase = what,
                 .fraction = fraction,
                 .seconds = taken,
                 .remaining = fraction > 0.0 ? taken * (1.0 - fraction) / fraction : 0.0});
}

std::string rough_duration(double seconds) {
  constexpr double minute = 60.0;
  constexpr double hour = 60.0 * minute;
  if (seconds < 10.0) {
    return fmt::format("{:.1f} s", seconds);
  }
  if (seconds < 2.0 * minute) {
    return fmt::format("{:.0f} s", seconds);
  }
  if (seconds < 2.0 * hour) {
    return fmt::format("{:.0f} min", seconds / minute);
  }
  return fmt::format("{:.1f} h", seconds / hour);
}

}  // namespace shardsolve::cli
