// Reads the words of a command line in order, so that what is wrong is said of the word that is wrong. CLI11, which then converts and stores the
// values, sees only what it can't refuse.
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "cli/command_line.h"
#include "tcc/support/standard_output.h"
#include "tcc/support/suggest.h"

namespace tcc::cli {

namespace {

/// Flags that other compilers and runtimes have for what is called otherwise here.
const std::map<std::string, std::string>& other_names() {
  static const std::map<std::string, std::string> names = {{"--output", "-o"},
                                                           {"--out", "-o"},
                                                           {"--jobs", "-j"},
                                                           {"--fp16", "--precision"},
                                                           {"--bf16", "--precision"},
                                                           {"--half", "--precision"},
                                                           {"--tf32", "--matmul-precision"},
                                                           {"--batch", "--bind"},
                                                           {"--batch-size", "--bind"},
                                                           {"--shape", "--shapes"},
                                                           {"--minShapes", "--shapes"},
                                                           {"--optShapes", "--shapes"},
                                                           {"--onnx", "the model without a flag"},
                                                           {"--model", "the model without a flag"},
                                                           {"--saveEngine", "-o"},
                                                           {"--iterations", "--runs"},
                                                           {"--loadInputs", "--input"},
                                                           {"--warmUp", "--warmup"},
                                                           {"--arch", "-march"},
                                                           {"--gpu", "--target"}};
  return names;
}

class Reader {
 public:
  Reader(CLI::App& app, const Arguments& arguments) : app_(app), arguments_(arguments) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_snames()) flags_.push_back("-" + name);
      for (const std::string& name : option->get_lnames()) flags_.push_back(written_name("--" + name));
    }
  }

  /// What CLI11 is to parse, each flag and its value in one word. Errors: usage.
  Arguments read() {
    while (at_ < arguments_.size()) read_word();
    const std::vector<const CLI::Option*> places =
        std::as_const(app_).get_options([](const CLI::Option* option) { return option->get_positional(); });
    for (size_t i = positionals_.size(); i < places.size(); ++i) {
      if (places[i]->get_required()) usage("no " + places[i]->get_name(true) + " is given", more());
    }
    if (positionals_.size() > places.size()) {
      const std::string extra = "`" + positionals_[places.size()] + "` is one argument too many";
      usage(places.empty() ? extra : extra + ", the " + places.back()->get_name(true) + " is `" + positionals_[places.size() - 1] + "`",
            more());
    }
    words_.push_back("--");
    words_.insert(words_.end(), positionals_.begin(), positionals_.end());
    return words_;
  }

 private:
  [[noreturn]] static void usage(const std::string& message, const std::string& help) {
    throw Error(ExitCode::usage, "invalid-argument", "", message, help);
  }
  std::string more() const { return "`" + app_.get_name() + " --help` lists what it takes"; }

  void read_word() {
    const std::string word = parsed_name(arguments_[at_++]);
    if (only_positionals_ || word == "-" || !word.starts_with('-')) {
      positionals_.push_back(word);
    } else if (word == "--") {
      only_positionals_ = true;
    } else if (word.starts_with("--")) {
      read_long(word);
    } else {
      read_short(word);
    }
  }

  void read_long(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = app_.get_option_no_throw(name);
    if (option == nullptr || name.size() < 3) unknown(written_name(name));
    if (option->get_items_expected_max() == 0) {
      if (equals != std::string::npos) usage(written_name(word) + ": " + written_name(name) + " takes no value", more());
      return take(*option, name, word);
    }
    const std::string value = equals != std::string::npos ? word.substr(equals + 1) : next_value(*option, written_name(name));
    check_value(*option, written_name(name), value);
    take(*option, name, name + "=" + value);
  }

  /// -q, -O2, -O 2, -qh
  void read_short(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string name = {'-', word[i]};
      const CLI::Option* option = app_.get_option_no_throw(name);
      // A word such as -version is a long name with one dash too few, not seven short ones.
      if (option == nullptr || (i == 1 && word.size() > 2 && !nearest_long(word).empty())) unknown(word);
      if (option->get_items_expected_max() == 0) {
        take(*option, name, name);
        continue;
      }
      const std::string rest = word.substr(i + 1);
      const std::string value = rest.empty() ? next_value(*option, name) : rest.starts_with('=') ? rest.substr(1) : rest;
      check_value(*option, name, value);
      return take(*option, name, name + value);
    }
  }

  /// --version for -version; empty when no flag has that name.
  std::string nearest_long(const std::string& word) const {
    const std::string name = "-" + word.substr(0, word.find('='));
    return app_.get_option_no_throw(name) == nullptr ? "" : name;
  }

  std::string next_value(const CLI::Option& option, const std::string& name) {
    if (at_ == arguments_.size()) usage(name + ": a value was expected (" + option.get_type_name() + ")", more());
    return arguments_[at_++];
  }

  void take(const CLI::Option& option, const std::string& name, const std::string& word) {
    const bool once = option.get_items_expected_max() == 1;
    if (!given_.insert(&option).second && once) usage(written_name(name) + " is given twice", "");
    words_.push_back(word);
  }

  /// Numbers are those whose type is called N (whole) or X.
  static void check_value(const CLI::Option& option, const std::string& name, const std::string& value) {
    const std::string shown = name.starts_with("--") || name.size() > 2 ? name + "=" + value : name + " " + value;
    const std::string type = option.get_type_name();
    if (value.empty()) usage(name + ": a value was expected (" + type + "), found nothing", "");
    const char* end = value.data() + value.size();
    if (name == "--seed") {
      uint64_t number = 0;
      const auto parsed = std::from_chars(value.data(), end, number);
      if (parsed.ec != std::errc() || parsed.ptr != end) usage(shown + ": a whole number from 0 to 2^64 - 1 was expected", "");
    } else if (type == "N") {
      int64_t number = 0;
      const auto parsed = std::from_chars(value.data() + (value[0] == '+' ? 1 : 0), end, number);
      if (parsed.ec == std::errc::invalid_argument || parsed.ptr != end) usage(shown + ": a whole number was expected", "");
      if (parsed.ec != std::errc() || number > std::numeric_limits<int32_t>::max() || number < std::numeric_limits<int32_t>::min())
        usage(shown + ": the number is out of range", "");
    } else if (type == "X") {
      double number = 0;
      const auto parsed = std::from_chars(value.data() + (value[0] == '+' ? 1 : 0), end, number);
      if (parsed.ec != std::errc() || parsed.ptr != end) usage(shown + ": a number was expected", "");
    }
  }

  [[noreturn]] void unknown(const std::string& name) {
    const std::string plain = name.substr(0, name.find('='));
    std::string meant = plain.starts_with("--") ? "" : nearest_long(plain);
    if (meant.empty() && other_names().contains(plain)) {
      const std::string& other = other_names().at(plain);
      if (!other.starts_with('-')) usage("there is no flag `" + plain + "`", "give " + other);
      if (std::find(flags_.begin(), flags_.end(), other) != flags_.end()) meant = other;
    }
    if (meant.empty()) meant = nearest(plain, flags_);
    usage("there is no flag `" + plain + "`", (meant.empty() ? "" : "did you mean `" + meant + "`? ") + more());
  }

  CLI::App& app_;
  const Arguments& arguments_;
  size_t at_ = 0;
  bool only_positionals_ = false;
  std::vector<std::string> flags_, positionals_;
  Arguments words_;
  std::set<const CLI::Option*> given_;
};

/// Whether a request for help or the version is among the words, whatever else is wrong.
bool asks_for(const Arguments& arguments, std::initializer_list<std::string_view> names) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (std::find(names.begin(), names.end(), argument) != names.end()) return true;
  }
  return false;
}

}  // namespace

bool parse(CLI::App& app, const Arguments& arguments, const Help& help) {
  // Known before anything is parsed, see main(); every verb has it.
  std::string form = "text";
  if (app.get_option_no_throw("--diagnostics") == nullptr)
    app.add_option("--diagnostics", form, "messages as text or json (text)")->type_name("FORM");
  if (asks_for(arguments, {"-h", "--help", "-help"})) {
    write_stdout(help_text(app, help));
    return false;
  }
  if (app.get_option_no_throw("--version") != nullptr && asks_for(arguments, {"--version", "-version", "-V"})) {
    write_stdout(version_text());
    return false;
  }
  const Arguments words = Reader(app, arguments).read();
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    throw Error(ExitCode::usage, "invalid-argument", "", error.what(), "`" + app.get_name() + " --help` lists what it takes");
  }
  require_one_of("--diagnostics", form, {"text", "json"});
  return true;
}

}  // namespace tcc::cli
