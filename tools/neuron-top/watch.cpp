// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/watch.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <ctime>
#include <thread>

#include "tools/common/exit_status.h"
#include "tools/common/output.h"
#include "tools/neuron-top/model/table.h"
#include "tools/neuron-top/screen/layout.h"
#include "tools/neuron-top/terminal.h"

namespace neuron::top {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kHistory = 600;
constexpr milliseconds kPerDevice{200};  // the screen does not wait longer for a slow device
constexpr milliseconds kPerDeviceOfReport{2000};
constexpr milliseconds kFirstInterval{250};

volatile std::sig_atomic_t ended = 0;
void end(int) { ended = 1; }

int lines_of_output() {
  winsize size = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 40;
}

int complain(const std::string& sentence) {
  std::fprintf(stderr, "neuron-top: %s\n", sentence.c_str());
  return tools::kFailed;
}

}  // namespace

int Watch::run() {
  state_.interval = options_.interval;
  if (!options_.replay.empty()) {
    const std::string error = replay_.emplace().open(options_.replay);
    if (!error.empty()) return complain(error);
  } else {
    source_ = telemetry::open_host_source();
  }
  if (!options_.record.empty()) {
    const std::string error = recorder_.open(options_.record);
    if (!error.empty()) return complain(error);
  }
  struct sigaction action = {};
  action.sa_handler = end;
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGHUP, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return options_.batch() ? run_batch() : run_screen();
}

void Watch::take(telemetry::Snapshot next) {
  before_ = std::move(now_);
  now_ = std::move(next);
  interval_ = compare(before_ ? &*before_ : nullptr, *now_);
}

void Watch::remember() {
  if (interval_.seconds <= 0) return;
  history_.push_back(average_utilization(*now_, interval_));
  if (history_.size() > kHistory) history_.pop_front();
}

bool Watch::look() {
  if (replay_) {
    if (index_ >= replay_->size()) return false;
    return look_at(index_);
  }
  telemetry::Wanted wanted;
  wanted.all_processes = true;
  take(source_->take(wanted, options_.batch() ? kPerDeviceOfReport : kPerDevice));
  const std::string error = recorder_.add(*now_);
  if (!error.empty()) trouble_ = error;
  remember();
  return true;
}

bool Watch::look_at(size_t index) {
  // Differences are to the record before, in either direction of the replay.
  telemetry::Snapshot snapshot;
  std::string error;
  now_.reset();
  if (index > 0 && replay_->read(index - 1, snapshot, error)) take(std::move(snapshot));
  if (replay_->read(index, snapshot, error)) {
    take(std::move(snapshot));
  } else {
    telemetry::Snapshot broken;
    broken.error = error;
    take(std::move(broken));
  }
  index_ = index + 1;
  remember();
  return true;
}

std::string Watch::position() const {
  if (!replay_) return "";
  const std::time_t at = std::chrono::system_clock::to_time_t(now_->at);
  char text[32] = "";
  std::tm parts{};
  if (::localtime_r(&at, &parts) != nullptr) std::strftime(text, sizeof text, "%H:%M:%S", &parts);
  return "replay " + std::to_string(index_) + "/" + std::to_string(replay_->size()) + " " + text;
}

View Watch::view() const {
  View view = build_view(*now_, interval_, state_, history_);
  const std::string where = position();
  if (!where.empty()) view.status = where + (view.status.empty() ? "" : ", ") + view.status;
  if (!trouble_.empty()) view.notes.push_back(trouble_);
  return view;
}

bool Watch::print(tools::Place place) {
  if (options_.format == tools::Format::kText) {
    const tools::Style style = tools::style_of(STDOUT_FILENO, options_.color);
    LayoutOptions layout;
    layout.width = options_.width > 0 ? options_.width : static_cast<int>(style.width);
    layout.height = options_.height > 0 ? options_.height : lines_of_output();
    layout.unicode = style.unicode && !options_.ascii;
    return tools::print_output("neuron-top", lay_out(view(), layout).text());
  }
  const tools::Style plain;
  const tools::Records records = build_records(view(), *now_, interval_);
  return tools::print_output("neuron-top", tools::render(records, options_.format, plain, place));
}

int Watch::run_batch() {
  const unsigned iterations = options_.iterations != 0 ? options_.iterations
                              : options_.once || options_.format != tools::Format::kNdjson ? 1
                                                                                           : 0;
  if (!look()) return complain("there is nothing to show");
  // Shares need two snapshots. A recording is shown from its first record with a difference.
  auto next = Clock::now() + std::min(state_.interval, kFirstInterval);
  int status = tools::kDone;
  for (unsigned done = 0; ended == 0 && (iterations == 0 || done < iterations); ++done) {
    if (!replay_) std::this_thread::sleep_until(next);
    next = Clock::now() + state_.interval;
    if (ended != 0) break;
    if (!look() && done > 0) break;
    const tools::Place place = iterations == 1 ? tools::Place::kAlone
                               : done == 0     ? tools::Place::kFirst
                                               : tools::Place::kLater;
    if (!print(place)) return tools::kFailed;
    // A report without devices says why, even if later ones have devices.
    if (!now_->error.empty()) status = complain(now_->error);
  }
  return trouble_.empty() ? status : complain(trouble_);
}

int Watch::run_screen() {
  const tools::Style style = tools::style_of(STDOUT_FILENO, options_.color);
  const Palette palette = !style.color || options_.palette == "none" ? Palette::kNone
                          : options_.palette == "color-blind"        ? Palette::kColorBlind
                                                                     : Palette::kStandard;
  std::string error;
  const std::unique_ptr<Terminal> terminal = Terminal::open(palette, !options_.no_mouse, error);
  if (terminal == nullptr) return complain(error);
  look();
  // The second snapshot comes soon, so that the first picture has shares.
  auto next = Clock::now() + std::min(state_.interval, kFirstInterval);
  std::optional<View> before;
  while (ended == 0) {
    View shown = view();
    if (before) {
      const std::string selected = state_.selected;
      keep_selection(state_, *before, shown);
      if (state_.selected != selected) shown = view();
    }
    before = shown;
    LayoutOptions layout{terminal->width(), terminal->height(), style.unicode && !options_.ascii};
    const Canvas canvas = lay_out(shown, layout);
    terminal->show(canvas);
    const auto rest = std::chrono::ceil<milliseconds>(next - Clock::now());
    const Event event = terminal->wait(
        std::clamp(rest, milliseconds(0), std::max(state_.interval, milliseconds(1))));
    if (event.gone) return tools::kDone;
    if (event.click) {
      const Target* target = canvas.target_at(event.click->first, event.click->second);
      if (target != nullptr) click(state_, *target, shown);
    } else if (event.key != Key::kNone) {
      const Command command = press(state_, event.key, event.character, shown);
      if (command == Command::kQuit) return tools::kDone;
      if (replay_ && command == Command::kStepBack && index_ > 1) look_at(index_ - 2);
      if (replay_ && command == Command::kStepForward) look();
    }
    next = std::min(next, Clock::now() + state_.interval);  // it may have become shorter
    if (Clock::now() >= next) {
      if (!state_.paused) look();
      next = Clock::now() + state_.interval;
    }
  }
  return tools::kDone;
}

}  // namespace neuron::top
