// Mutated input of every kind against the program. Whatever comes in, tcc ends by itself within 10 s, by one of its documented exit codes and not by 4, and
// leaves nothing behind; what it makes of it runs without a signal.
//
//   test_attack                                       all kinds in turn, 20 s: what CI runs
//   test_attack --kind=models --cases=20000 --seed=3  by hand
//   test_attack --kind=models --seed=3 --only=1234    one case again; its files stay in the folder that is printed
//
// A case depends on the seed, its kind and its number alone.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "fuzz/case.h"
#include "fuzz/seeds.h"

namespace tcc::attack {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char* name;
  void (*attack)(Case&, Random&, const Seeds&);
};
constexpr Kind kKinds[] = {{"models", attack_model},      {"texts", attack_text}, {"schedules", attack_schedule}, {"arrays", attack_array},
                           {"libraries", attack_library}, {"dumps", attack_dump}, {"archives", attack_archive}};

struct Options {
  uint64_t seed = 1;
  double seconds = 20;
  int64_t cases = 0;  ///< of each kind, in place of a time
  int64_t first = 0, only = -1;
  std::string kind, tcc = TCC_EXECUTABLE, keep = TCC_BINARY_DIR "/tests/attack";
};

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path().filename().string());
  return files;
}

std::string quoted(const std::string& word) { return word.find_first_of(" ()*;&") == std::string::npos ? word : "'" + word + "'"; }

}  // namespace

void Case::write(const std::string& name, const std::string& bytes) {
  std::ofstream(path(name), std::ios::binary) << bytes;
  known_.push_back(name);
}

bool Case::has(const std::string& name) const { return fs::exists(path(name)); }

void Case::fail(const std::string& fault) {
  if (!verdict.fault.empty()) return;
  verdict = {last_, fault};
}

Outcome Case::tcc(std::vector<std::string> arguments, const std::vector<int>& allowed, const std::vector<std::string>& made,
                  bool may_be_slow) {
  arguments.insert(arguments.begin(), tcc_);
  last_ = arguments;
  const Outcome outcome = run(arguments, folder_);
  if (outcome.timed_out) {
    if (!may_be_slow) fail(outcome.text());
    return outcome;
  }
  const bool ends_well = outcome.signal == 0 && std::find(allowed.begin(), allowed.end(), outcome.exit_code) != allowed.end();
  if (!ends_well) fail(outcome.text() + "\n" + outcome.errors);
  if (outcome.exit_code == 0) known_.insert(known_.end(), made.begin(), made.end());
  for (const std::string& file : files_in(folder_)) {
    if (std::find(known_.begin(), known_.end(), file) == known_.end()) fail(outcome.text() + ", and `" + file + "` was left behind");
  }
  return outcome;
}

namespace {

class Run {
 public:
  explicit Run(Options options) : options_(std::move(options)) {
    work_ = fs::temp_directory_path() / ("tcc_attack_" + std::to_string(::getpid()));
    fs::create_directories(work_ / "seeds");
    seeds_ = make_seeds(options_.tcc, (work_ / "seeds").string());
  }
  ~Run() { fs::remove_all(work_); }

  int run() {
    const auto begin = std::chrono::steady_clock::now();
    const auto is_over = [&](int64_t number) {
      if (options_.only >= 0) return number > options_.only;
      if (options_.cases > 0) return number >= options_.first + options_.cases;
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > options_.seconds;
    };
    for (int64_t number = options_.only >= 0 ? options_.only : options_.first; !is_over(number); ++number) {
      for (size_t kind = 0; kind < std::size(kKinds); ++kind) {
        if (options_.kind.empty() || options_.kind == kKinds[kind].name) one(kind, number);
      }
    }
    for (const auto& [name, count] : counts_) std::printf("%-10s %6lld cases\n", name.c_str(), static_cast<long long>(count));
    std::printf("%d of them failed\n", failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void one(size_t kind, int64_t number) {
    const std::string name = kKinds[kind].name;
    const fs::path folder = work_ / "case";
    fs::create_directories(folder);
    Case target(options_.tcc, folder.string());
    Random random(options_.seed, kind, static_cast<uint64_t>(number));
    kKinds[kind].attack(target, random, seeds_);
    ++counts_[name];
    if (!target.verdict.fault.empty()) report(name, number, folder, target.verdict);
    if (options_.only >= 0) keep(name, number, folder);
    fs::remove_all(folder);
  }

  fs::path keep(const std::string& kind, int64_t number, const fs::path& folder) const {
    const fs::path kept = fs::path(options_.keep) / (kind + "-" + std::to_string(options_.seed) + "-" + std::to_string(number));
    fs::remove_all(kept);
    fs::create_directories(kept.parent_path());
    fs::copy(folder, kept, fs::copy_options::recursive);
    std::printf("files of %s %lld: %s\n", kind.c_str(), static_cast<long long>(number), kept.c_str());
    return kept;
  }

  void report(const std::string& kind, int64_t number, const fs::path& folder, const Verdict& verdict) {
    ++failed_;
    const fs::path kept = keep(kind, number, folder);
    std::printf("FAILED %s %lld: %s\n  cd %s &&", kind.c_str(), static_cast<long long>(number), verdict.fault.c_str(), kept.c_str());
    for (const std::string& word : verdict.command) std::printf(" %s", quoted(word).c_str());
    std::printf("\n  again: test_attack --kind=%s --seed=%llu --only=%lld\n", kind.c_str(), static_cast<unsigned long long>(options_.seed),
                static_cast<long long>(number));
    std::fflush(stdout);
  }

  Options options_;
  fs::path work_;
  Seeds seeds_;
  std::map<std::string, int64_t> counts_;
  int failed_ = 0;
};

int usage() {
  std::puts(
      "usage: test_attack [--seed=N] [--seconds=S | --cases=N [--first=N] | --only=N] "
      "[--kind=models|texts|schedules|arrays|libraries|dumps|archives]\n"
      "                   [--tcc=PATH] [--keep=FOLDER]");
  return 2;
}

}  // namespace
}  // namespace tcc::attack

int main(int argc, char** argv) {
  tcc::attack::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals), value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (value.empty()) return tcc::attack::usage();
    if (name == "--seed") options.seed = std::stoull(value);
    else if (name == "--seconds") options.seconds = std::stod(value);
    else if (name == "--cases") options.cases = std::stoll(value);
    else if (name == "--first") options.first = std::stoll(value);
    else if (name == "--only") options.only = std::stoll(value);
    else if (name == "--kind") options.kind = value;
    else if (name == "--tcc") options.tcc = value;
    else if (name == "--keep") options.keep = value;
    else return tcc::attack::usage();
  }
  return tcc::attack::Run(options).run();
}
