// Equality by structure: both sides are printed with names that depend on structure alone, and the first line that differs says why.
#include <sstream>
#include <string>

#include "loop/printer.h"

namespace tcc::loop {
namespace {

bool same_text(const std::string& a, const std::string& b, std::string* why) {
  if (a == b) return true;
  if (why) {
    std::istringstream x(a), y(b);
    std::string left, right;
    int number = 0;
    bool more_left = true, more_right = true;
    do {
      more_left = static_cast<bool>(std::getline(x, left));
      more_right = static_cast<bool>(std::getline(y, right));
      ++number;
    } while (more_left && more_right && left == right);
    *why = "line " + std::to_string(number) + ": `" + (more_left ? left : "") + "` and `" + (more_right ? right : "") + "`";
  }
  return false;
}

}  // namespace

bool equal(const Unit& a, const Unit& b, std::string* why) { return same_text(Printer(true).unit(a), Printer(true).unit(b), why); }
bool equal(const Kernel& a, const Kernel& b, std::string* why) {
  return same_text(Printer(true).kernel(a, "k"), Printer(true).kernel(b, "k"), why);
}

}  // namespace tcc::loop
