// Roles, one at a time: each has a thread of the host, and one of them holds the baton. It goes back where a role waits for what another has to do first, and
// when the role is done. Which role goes on next is the machine's choice, the same in every run.
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "loop/machine.h"

namespace tcc::loop {

/// Thrown through a role that is given up because another one failed.
struct Abandoned {};

class RoleRunner {
 public:
  explicit RoleRunner(Machine& machine) : machine_(machine) {}
  RoleRunner(const RoleRunner&) = delete;
  RoleRunner& operator=(const RoleRunner&) = delete;

  /// Runs all to their ends. Rethrows what the first of them that failed threw.
  void run(const std::vector<std::function<void()>>& bodies) {
    tasks_.resize(bodies.size());
    for (size_t i = 0; i < bodies.size(); ++i) tasks_[i].thread = std::thread([this, &bodies, i] { run_task(i, bodies[i]); });
    while (true) {
      const int next = choose();
      if (next < 0) break;
      hand_to(next);
    }
    for (Task& task : tasks_) task.thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

  /// Of the role that holds the baton: gives it back until it may go on. False: no role can.
  bool yield() {
    Task& task = tasks_[static_cast<size_t>(running_)];
    task.blocked_at = machine_.progress_;
    task.stuck = false;
    const Saved saved = save();
    give_back();
    if (abandoned_) throw Abandoned{};
    restore(saved);
    return !task.stuck;
  }

 private:
  struct Task {
    std::thread thread;
    int64_t blocked_at = -1;  ///< progress when it began to wait; -1: it can go on
    bool done = false, stuck = false;
  };
  /// What of the machine belongs to the role.
  struct Saved {
    const Stmt* current;
    int first;
    size_t width;
    bool in_exchange;
    int bound_depth;
  };
  Saved save() const {
    return {machine_.current_, machine_.team_first_, machine_.team_width_, machine_.in_exchange_, machine_.bound_depth_};
  }
  void restore(const Saved& saved) {
    machine_.current_ = saved.current;
    machine_.team_first_ = saved.first;
    machine_.team_width_ = saved.width;
    machine_.in_exchange_ = saved.in_exchange;
    machine_.bound_depth_ = saved.bound_depth;
  }

  /// The role that goes on; one that waits in vain where all do, which then says so; -1: all are done.
  int choose() {
    int waiting = -1;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      const size_t at = machine_.options_.last_role_first ? tasks_.size() - 1 - i : i;
      const Task& task = tasks_[at];
      if (task.done) continue;
      if (abandoned_ || task.blocked_at < machine_.progress_) return static_cast<int>(at);
      if (waiting < 0) waiting = static_cast<int>(at);
    }
    if (waiting >= 0) tasks_[static_cast<size_t>(waiting)].stuck = true;
    return waiting;
  }

  void run_task(size_t number, const std::function<void()>& body) {
    wait_for(static_cast<int>(number));
    try {
      if (!abandoned_) body();
    } catch (const Abandoned&) {
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
      abandoned_ = true;
    }
    tasks_[number].done = true;
    ++machine_.progress_;
    pass(-1);
  }

  void hand_to(int task) {
    pass(task);
    wait_for(-1);
  }
  void give_back() {
    const int own = running_;
    pass(-1);
    wait_for(own);
  }
  void pass(int to) {
    {
      const std::lock_guard lock(mutex_);
      running_ = to;
    }
    changed_.notify_all();
  }
  void wait_for(int own) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == own; });
  }

  Machine& machine_;
  std::vector<Task> tasks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = -1;  ///< who has the baton; -1: run()
  bool abandoned_ = false;
  std::exception_ptr failure_;
};

void Machine::until(const std::function<bool()>& holds, const std::string& message) {
  while (!holds()) {
    if (!runner_ || !runner_->yield()) fail(message);
  }
}

void Machine::execute(const Roles& roles, const Threads& active) {
  collective(active, "roles");
  if (!options_.lockstep) fail("roles need threads side by side: interpret them as a kernel");
  const Stmt* stmt = current_;
  const int outer_first = team_first_;
  const size_t outer_width = team_width_;
  std::vector<std::function<void()>> bodies;
  int first = outer_first;
  for (const Role& role : roles.roles) {
    const int width = 32 * role.warps;
    bodies.emplace_back([this, &role, stmt, first, width] {
      current_ = stmt;
      team_first_ = first;
      team_width_ = static_cast<size_t>(width);
      Threads threads;
      for (int t = first; t < first + width; ++t) threads.push_back(t);
      run(role.body, threads);
    });
    first += width;
  }
  if (static_cast<size_t>(first - outer_first) != outer_width) fail("the roles do not have all warps of the block");
  RoleRunner runner(*this);
  runner_ = &runner;
  try {
    runner.run(bodies);
  } catch (...) {
    runner_ = nullptr;
    throw;
  }
  runner_ = nullptr;
  current_ = stmt;
  team_first_ = outer_first;
  team_width_ = outer_width;
  ++epoch_;
}

}  // namespace tcc::loop
