// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/terminal.h"

#define NCURSES_WIDECHAR 1
#include <ncurses.h>
#include <poll.h>
#include <term.h>
#include <unistd.h>
// term.h has these as macros.
#undef lines
#undef columns

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cwchar>

namespace neuron::top {

struct Terminal::Colors {
  std::array<attr_t, static_cast<size_t>(Ink::kCount)> attributes{};
  std::array<short, static_cast<size_t>(Ink::kCount)> pairs{};
  SCREEN* screen = nullptr;
};

namespace {

struct Pair {
  Ink ink;
  short text, ground;
  attr_t attribute;
};

// Colours of a terminal with eight of them.
constexpr Pair kStandard[] = {
    {Ink::kTitle, COLOR_WHITE, COLOR_BLUE, A_BOLD},
    {Ink::kHeading, COLOR_CYAN, -1, A_BOLD},
    {Ink::kFilled, COLOR_GREEN, -1, 0},
    {Ink::kSystem, COLOR_RED, -1, 0},
    {Ink::kEmpty, -1, -1, A_DIM},
    {Ink::kSelected, COLOR_WHITE, COLOR_RED, A_BOLD},
    {Ink::kActive, COLOR_GREEN, -1, A_BOLD},
    {Ink::kFaint, -1, -1, A_DIM},
    {Ink::kGood, COLOR_GREEN, -1, 0},
    {Ink::kWarning, COLOR_YELLOW, -1, 0},
    {Ink::kBad, COLOR_RED, -1, A_BOLD},
};

// Those of 256 colours that are nearest to Okabe and Ito's, which can be told apart with any kind
// of colour blindness.
constexpr short kBlue = 32, kSky = 74, kOrange = 172, kVermilion = 166, kYellow = 221;
constexpr Pair kColorBlind[] = {
    {Ink::kTitle, 231, kBlue, A_BOLD},   {Ink::kHeading, kSky, -1, A_BOLD},
    {Ink::kFilled, kSky, -1, 0},         {Ink::kSystem, kOrange, -1, 0},
    {Ink::kEmpty, -1, -1, A_DIM},        {Ink::kSelected, 16, kYellow, A_BOLD},
    {Ink::kActive, kYellow, -1, A_BOLD}, {Ink::kFaint, -1, -1, A_DIM},
    {Ink::kGood, kSky, -1, 0},           {Ink::kWarning, kYellow, -1, 0},
    {Ink::kBad, kVermilion, -1, A_BOLD},
};

// Attributes alone.
constexpr Pair kNoColor[] = {
    {Ink::kTitle, -1, -1, A_REVERSE},     {Ink::kHeading, -1, -1, A_BOLD},
    {Ink::kEmpty, -1, -1, A_DIM},         {Ink::kSelected, -1, -1, A_REVERSE},
    {Ink::kActive, -1, -1, A_BOLD},       {Ink::kFaint, -1, -1, A_DIM},
    {Ink::kWarning, -1, -1, A_UNDERLINE}, {Ink::kBad, -1, -1, A_BOLD | A_UNDERLINE},
};

// A signal may come just before a wait; it is then seen after at most this many milliseconds.
constexpr std::chrono::milliseconds::rep kLongestWait = 250;

Key key_of(int code) {
  switch (code) {
    case KEY_UP:
      return Key::kUp;
    case KEY_DOWN:
      return Key::kDown;
    case KEY_LEFT:
      return Key::kLeft;
    case KEY_RIGHT:
      return Key::kRight;
    case KEY_PPAGE:
      return Key::kPageUp;
    case KEY_NPAGE:
      return Key::kPageDown;
    case KEY_HOME:
      return Key::kHome;
    case KEY_END:
      return Key::kEnd;
    case KEY_ENTER:
      return Key::kEnter;
    case KEY_BACKSPACE:
      return Key::kBackspace;
    default:
      return Key::kNone;
  }
}

Event mouse_event() {
  Event event;
  MEVENT mouse;
  if (::getmouse(&mouse) != OK) return event;
  if ((mouse.bstate & (BUTTON1_CLICKED | BUTTON1_PRESSED | BUTTON1_DOUBLE_CLICKED)) != 0) {
    event.click = {mouse.x, mouse.y};
  } else if ((mouse.bstate & BUTTON4_PRESSED) != 0) {
    event.key = Key::kUp;
  } else if ((mouse.bstate & BUTTON5_PRESSED) != 0) {
    event.key = Key::kDown;
  }
  return event;
}

}  // namespace

std::unique_ptr<Terminal> Terminal::open(Palette palette, bool mouse, std::string& error) {
  const char* term = std::getenv("TERM");
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    error =
        "standard input and output are no terminal; --once prints the screen as text, "
        "--format json for programs";
    return nullptr;
  }
  auto colors = std::make_unique<Colors>();
  // newterm() returns an error where initscr() would end the process.
  colors->screen = ::newterm(nullptr, stdout, stdin);
  if (colors->screen == nullptr) {
    error = std::string("the terminal type TERM=") + (term != nullptr ? term : "(unset)") +
            " is not known here; set TERM (for example to xterm), or use --once";
    return nullptr;
  }
  ::set_term(colors->screen);
  if (::tigetstr("cup") == nullptr) {
    ::endwin();
    ::delscreen(colors->screen);
    error =
        std::string("the terminal type TERM=") + (term != nullptr ? term : "(unset)") +
        " cannot place the cursor; use --once, or --iterations for pictures one after the other";
    return nullptr;
  }
  ::cbreak();
  ::noecho();
  ::keypad(stdscr, TRUE);
  ::curs_set(0);
  ::set_escdelay(25);
  if (mouse) {
    ::mousemask(BUTTON1_CLICKED | BUTTON1_PRESSED | BUTTON1_DOUBLE_CLICKED | BUTTON4_PRESSED |
                    BUTTON5_PRESSED,
                nullptr);
    ::mouseinterval(0);
  }
  const bool colored = palette != Palette::kNone && ::has_colors();
  if (colored) {
    ::start_color();
    ::use_default_colors();
  }
  if (palette == Palette::kColorBlind && COLORS < 256) palette = Palette::kNone;
  const auto use = [&](const auto& table) {
    short next = 1;
    for (const Pair& pair : table) {
      const size_t ink = static_cast<size_t>(pair.ink);
      colors->attributes[ink] = pair.attribute;
      if (colored && (pair.text >= 0 || pair.ground >= 0)) {
        ::init_pair(next, pair.text, pair.ground);
        colors->pairs[ink] = next++;
      }
    }
  };
  if (!colored || palette == Palette::kNone) {
    use(kNoColor);
  } else if (palette == Palette::kColorBlind) {
    use(kColorBlind);
  } else {
    use(kStandard);
  }
  std::unique_ptr<Terminal> terminal(new Terminal());
  terminal->colors_ = std::move(colors);
  return terminal;
}

Terminal::~Terminal() {
  ::endwin();
  if (colors_ != nullptr) ::delscreen(colors_->screen);
}

int Terminal::width() const { return COLS; }
int Terminal::height() const { return LINES; }

void Terminal::show(const Canvas& canvas) {
  ::erase();
  for (int y = 0; y < canvas.height() && y < LINES; ++y) {
    for (int x = 0; x < canvas.width() && x < COLS; ++x) {
      const Cell& cell = canvas.at(x, y);
      if (cell.character == Canvas::kSecondHalf) continue;
      const size_t ink = static_cast<size_t>(cell.ink);
      const wchar_t text[2] = {static_cast<wchar_t>(cell.character), 0};
      cchar_t character;
      ::setcchar(&character, text, colors_->attributes[ink], colors_->pairs[ink], nullptr);
      mvadd_wch(y, x, &character);
    }
  }
  ::refresh();
}

Event Terminal::wait(std::chrono::milliseconds most) {
  Event event;
  ::timeout(0);
  wint_t code = 0;
  int kind = ::get_wch(&code);
  if (kind == ERR) {
    // The wait of curses is not used: it goes on after a signal.
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const auto longest = std::min<std::chrono::milliseconds::rep>(most.count(), kLongestWait);
    ::poll(&input, 1, static_cast<int>(std::max<std::chrono::milliseconds::rep>(0, longest)));
    kind = ::get_wch(&code);
  }
  if (kind == ERR) {
    // A terminal that was closed is always ready but has no input.
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (::poll(&input, 1, 0) > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
      event.gone = true;
    }
    return event;
  }
  if (kind == KEY_CODE_YES) {
    if (code == KEY_RESIZE) {
      event.resized = true;
    } else if (code == KEY_MOUSE) {
      return mouse_event();
    } else {
      event.key = key_of(static_cast<int>(code));
    }
    return event;
  }
  switch (code) {
    case '\n':
    case '\r':
      event.key = Key::kEnter;
      break;
    case 27:
      event.key = Key::kEscape;
      break;
    case '\t':
      event.key = Key::kTab;
      break;
    case 8:
    case 127:
      event.key = Key::kBackspace;
      break;
    case 12:  // control-L
      ::clearok(stdscr, TRUE);
      event.resized = true;
      break;
    default:
      if (code >= ' ' && code < 127) {
        event.key = Key::kCharacter;
        event.character = static_cast<char>(code);
      }
  }
  return event;
}

}  // namespace neuron::top
