// One case of an attack: files in a folder, and commands on them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuzz/child.h"
#include "fuzz/random.h"

namespace tcc::attack {

/// What ran, and what was wrong with it; `fault` is empty when nothing was.
struct Verdict {
  std::vector<std::string> command;
  std::string fault;
};

class Case {
 public:
  Case(std::string tcc, std::string folder) : tcc_(std::move(tcc)), folder_(std::move(folder)) {}

  void write(const std::string& name, const std::string& bytes);
  /// Runs tcc. A signal, an end that doesn't come, exit code 4 and any code that isn't among `allowed` are faults, and so are files that are left behind:
  /// only those in `made` may be new, and only after exit code 0. `may_be_slow`: what runs is the model's own work.
  Outcome tcc(std::vector<std::string> arguments, const std::vector<int>& allowed, const std::vector<std::string>& made = {},
              bool may_be_slow = false);
  void fail(const std::string& fault);
  bool has(const std::string& name) const;
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  Verdict verdict;

 private:
  std::string tcc_, folder_;
  std::vector<std::string> known_;  ///< files that may be there
  std::vector<std::string> last_;   ///< the command that ran last
};

/// What an attack needs before its cases: inputs that are good, made once.
struct Seeds;

using Attack = std::function<void(Case&, Random&, const Seeds&)>;
void attack_model(Case& target, Random& random, const Seeds& seeds);
void attack_text(Case& target, Random& random, const Seeds& seeds);
void attack_schedule(Case& target, Random& random, const Seeds& seeds);
void attack_array(Case& target, Random& random, const Seeds& seeds);
void attack_dump(Case& target, Random& random, const Seeds& seeds);
void attack_archive(Case& target, Random& random, const Seeds& seeds);
void attack_library(Case& target, Random& random, const Seeds& seeds);

}  // namespace tcc::attack
