#include "driver/tuning_database.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

#include "tcc/runtime/checksum.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/printable.h"
#include "tcc/support/suggest.h"
#include "tcc/support/text.h"

namespace tcc::driver {

namespace {

constexpr std::string_view kMagic = "tcc-tuning", kVersion = "1";
constexpr size_t kHashDigits = 32;
/// Of the lines of an entry, in order.
constexpr std::string_view kWords[] = {"computes", "chip", "default", "tuned", "schedule"};
constexpr size_t kWordColumns = 11;

std::string target_name(const Target& target) {
  return target.name + (target.is_cuda() && target.allow_tf32 ? "+tf32" : "") + (target.deterministic ? "+deterministic" : "");
}

/// "8.36 us" -> 8.36.
std::optional<double> parse_us(std::string_view text) {
  if (!text.ends_with(" us")) return std::nullopt;
  const std::string number(text.substr(0, text.size() - 3));
  char* end = nullptr;
  const double us = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !std::isfinite(us) || us < 0) return std::nullopt;
  return us;
}

bool is_hash(std::string_view text) {
  return text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  TuningDatabase read() {
    bool has_version = false;
    for (size_t at = 0; at < text_.size() && !stopped_;) {
      const size_t end = std::min(text_.find('\n', at), text_.size());
      const std::string_view line = text_.substr(at, end - at), content = trimmed(line);
      at = end + 1;
      number_++;
      if (content.empty() || content.starts_with('#')) continue;
      if (!has_version) has_version = read_version(content);
      else if (line.starts_with(' ')) read_line(content);
      else begin(content);
    }
    if (!stopped_ && !has_version) fail("the file does not begin with `" + std::string(kMagic) + " " + std::string(kVersion) + "`", "");
    finish();
    if (!stopped_ && text_.size() > 0 && text_.back() != '\n') fail("the last line has no end: the file was cut", "");
    faults_.checkpoint(ExitCode::usage);
    return std::move(database_);
  }

 private:
  std::string where() const { return file_ + ":" + std::to_string(number_); }

  void fail(const std::string& message, const std::string& help) {
    faults_.error("invalid-tuning", where(), message);
    if (!help.empty()) faults_.help(where(), help);
  }

  bool read_version(std::string_view line) {
    if (line == std::string(kMagic) + " " + std::string(kVersion)) return true;
    stopped_ = true;  // what follows can't be told
    const bool other = line.starts_with(std::string(kMagic) + " ");
    fail("found `" + printable(std::string(line.substr(0, 80))) + "`, expected `" + std::string(kMagic) + " " + std::string(kVersion) + "`",
         other ? "the file is of another version of tcc: tune again, into a new file" : "the file is not one that `tcc tune` has written");
    return false;
  }

  void begin(std::string_view line) {
    finish();
    given_.clear();
    constexpr std::string_view kUnit = "unit ", kFor = " for ";
    const size_t middle = line.find(kFor);
    if (!line.starts_with(kUnit) || middle == std::string_view::npos || !is_hash(line.substr(kUnit.size(), middle - kUnit.size()))) {
      key_.reset();
      fail("found `" + printable(std::string(line.substr(0, 80))) + "`, expected `unit <hash> for <target>`", "");
      skipping_ = true;
      return;
    }
    skipping_ = false;
    key_ =
        TuningKey{std::string(trimmed(line.substr(middle + kFor.size()))), std::string(line.substr(kUnit.size(), middle - kUnit.size()))};
    entry_ = {};
    begin_ = number_;
    const auto [at, is_new] = lines_.try_emplace(*key_, number_);
    if (!is_new)
      fail("the unit has an entry for " + printable(key_->target) + " in line " + std::to_string(at->second) + " already",
           "leave one of them: a merge may have kept both");
  }

  void read_line(std::string_view line) {
    if (skipping_) return;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string word(line.substr(0, space)), rest(trimmed(line.substr(space)));
    if (!key_) return fail("`" + printable(word) + "` belongs to no unit", "");
    if (std::find(std::begin(kWords), std::end(kWords), word) == std::end(kWords))
      return fail("there is no line `" + printable(word) + "` of an entry",
                  suggest(word, "lines", std::vector<std::string>(std::begin(kWords), std::end(kWords))));
    if (!given_.insert(word).second) return fail("the entry has two lines `" + word + "`", "");
    if (word == "computes") entry_.computes = rest;
    if (word == "chip") entry_.chip = rest;
    if (word == "schedule") entry_.schedule = rest, entry_.line = number_;
    if (word != "default" && word != "tuned") return;
    const std::optional<double> us = parse_us(rest);
    if (!us) return fail("`" + word + "` is `" + printable(rest) + "`, expected a time such as `8.36 us`", "");
    (word == "default" ? entry_.default_us : entry_.tuned_us) = *us;
  }

  void finish() {
    if (!key_) return;
    for (const std::string_view word : kWords) {
      if (given_.contains(std::string(word))) continue;
      faults_.error("invalid-tuning", file_ + ":" + std::to_string(begin_), "the entry has no line `" + std::string(word) + "`");
    }
    database_.try_emplace(*key_, std::move(entry_));
    key_.reset();
  }

  const std::string_view text_;
  const std::string& file_;
  Diagnostics faults_;
  TuningDatabase database_;
  std::map<TuningKey, int> lines_;
  std::optional<TuningKey> key_;  ///< of the entry that is read
  TuningEntry entry_;
  std::set<std::string> given_;
  int number_ = 0, begin_ = 0;
  bool stopped_ = false, skipping_ = false;
};

}  // namespace

TuningKey tuning_key(const loop::FirstForm& form, const Target& target) {
  const std::string name = target_name(target), text = name + "\n" + form.key;
  char hash[kHashDigits + 1];
  // Two sums from two starts, as one of 64 bits would be too short for a file that several share.
  std::snprintf(hash, sizeof hash, "%016llx%016llx", static_cast<unsigned long long>(program::checksum(text.data(), text.size())),
                static_cast<unsigned long long>(program::checksum(text.data(), text.size(), ~program::kChecksumStart)));
  return {name, hash};
}

TuningDatabase parse_tuning(std::string_view text, const std::string& file) { return Reader(text, file).read(); }

std::string print_us(double us) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f us", us);
  return text;
}

std::string print(const TuningDatabase& database) {
  std::string text = std::string(kMagic) + " " + std::string(kVersion) + "\n";
  for (const auto& [key, entry] : database) {
    const auto line = [&](std::string_view word, const std::string& value) {
      text += "  " + std::string(word) + std::string(kWordColumns - word.size(), ' ') + value + "\n";
    };
    text += "\nunit " + key.hash + " for " + key.target + "\n";
    line("computes", entry.computes);
    line("chip", entry.chip);
    line("default", print_us(entry.default_us));
    line("tuned", print_us(entry.tuned_us));
    line("schedule", entry.schedule);
  }
  return text;
}

}  // namespace tcc::driver
