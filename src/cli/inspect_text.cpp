#include <algorithm>
#include <cstdio>

#include "cli/inspect.h"
#include "tcc/support/printable.h"

namespace tcc::cli {

namespace {

std::string size_text(double bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  char text[40];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text;
}

std::string count_text(double count) {
  constexpr const char* kUnits[] = {"", " thousand", " million", " billion"};
  size_t unit = 0;
  for (; count >= 10000 && unit + 1 < std::size(kUnits); ++unit) count /= 1000;
  char text[40];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.4g%s", count, kUnits[unit]);
  return text;
}

bool is_size(const std::string& key) { return key == "bytes" || key.ends_with("_bytes"); }

/// The key without its unit, its words apart.
std::string label(std::string key) {
  if (key.ends_with("_bytes")) key.resize(key.size() - 6);
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

std::string value_text(const std::string& key, const Report& value) {
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_number() && is_size(key)) return size_text(value.get<double>());
  if (value.is_number() && (key == "operations" || key.ends_with("elements"))) return count_text(value.get<double>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "unknown";
  return value.dump();
}

bool is_plain(const Report& value) { return !value.is_object() && !value.is_array(); }

std::string joined(const std::string& key, const Report& values) {
  std::string text;
  for (const Report& value : values) text += (text.empty() ? "" : ", ") + value_text(key, value);
  return text;
}

class Printer {
 public:
  explicit Printer(bool lists) : lists_(lists) {}

  void print(const Report& object, const std::string& indent) {
    size_t column = 0;
    for (const auto& [key, value] : object.items()) column = std::max(column, label(key).size());
    for (const auto& [key, value] : object.items()) print(key, value, indent, column);
  }

  std::string text;

 private:
  void print(const std::string& key, const Report& value, const std::string& indent, size_t column) {
    const bool one_by_one = key == "tensors";
    if (one_by_one && !lists_) return;
    std::string line = indent + label(key);
    line.resize(std::max(line.size(), indent.size() + column) + 2, ' ');
    if (is_plain(value)) {
      text += line + value_text(key, value) + "\n";
    } else if (value.is_array() && std::all_of(value.begin(), value.end(), is_plain)) {
      text += line + (value.empty() ? "none" : joined(key, value)) + "\n";
    } else if (value.is_object()) {
      text += indent + label(key) + "\n";
      print(value, indent + "  ");
    } else {
      text += indent + label(key) + "\n";
      for (const Report& row : value) print_row(row, indent + "  ");
    }
  }

  /// An object of a list: its plain members in one line, the others below.
  void print_row(const Report& row, const std::string& indent) {
    std::string line = indent;
    const char* first = row.contains("name") ? "name" : "target";
    if (row.contains(first)) line += value_text(first, row[first]);
    if (row.contains("type")) line += ": " + value_text("type", row["type"]);
    Report rest = Report::object();
    for (const auto& [key, value] : row.items()) {
      if (key == first || key == "type") continue;
      if (is_plain(value)) line += ", " + label(key) + " " + value_text(key, value);
      else if (value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), is_plain)) line += ", " + joined(key, value);
      else rest[key] = value;
    }
    text += line + "\n";
    print(rest, indent + "  ");
  }

  bool lists_;
};

}  // namespace

std::string report_text(const Report& report, bool lists) {
  Printer printer(lists);
  printer.print(report, "");
  return printer.text;
}

}  // namespace tcc::cli
