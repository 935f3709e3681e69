// Checks a plan: every read finds what was written, nothing that lives is written over, and launches fit their kernels.

#include <algorithm>
#include <map>
#include <set>

#include "plan/arena.h"
#include "tcc/loop/overwrite.h"
#include "tcc/plan/plan.h"

namespace tcc::plan {
namespace {

/// Bytes [begin, end) of a region: a buffer that is no alias, or a block of state (-1 and below), where buffers may overlap.
struct Range {
  int buffer;  ///< that is no alias
  int region;
  int64_t begin, end;
  bool overlaps(const Range& other) const { return region == other.region && begin < other.end && other.begin < end; }
};

/// What the bytes of a region hold: which buffer's value was written last, by disjoint ranges.
class Contents {
 public:
  static constexpr int kInitial = -1;  ///< nothing was written

  void set(int64_t begin, int64_t end, int holder) {
    if (begin == end) return;
    cut(begin);
    cut(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_[begin] = {end, holder};
  }
  /// Whether `fits` holds for the holder of every byte.
  template <class F> bool all(int64_t begin, int64_t end, F fits) const {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second.end > begin) --at;
    for (; begin < end; ++at) {
      if (at == ranges_.end() || at->first > begin) {
        if (!fits(kInitial)) return false;
        if (at == ranges_.end()) return true;
        begin = at->first;
        if (begin >= end) return true;
      }
      if (!fits(at->second.holder)) return false;
      begin = at->second.end;
    }
    return true;
  }

 private:
  struct Part {
    int64_t end;
    int holder;
  };
  void cut(int64_t position) {
    auto at = ranges_.lower_bound(position);
    if (at == ranges_.begin()) return;
    --at;
    if (at->second.end <= position) return;
    ranges_[position] = at->second;
    at->second.end = position;
  }
  std::map<int64_t, Part> ranges_;  ///< by where they begin
};

/// What kernels rely on, of every argument.
constexpr int64_t kAddressAlignment = 16;

class Verifier {
 public:
  explicit Verifier(const Plan& plan) : plan_(plan), first_(plan.buffers.size(), -1), last_(plan.buffers.size(), -1) {}

  std::vector<std::string> run() {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) check_buffer(i);
    if (!faults_.empty()) return std::move(faults_);
    for (size_t i = 0; i < plan_.constants.size(); ++i)
      check_once(plan_.constants[i], "constant " + std::to_string(i), Buffer::Kind::constant);
    for (size_t i = 0; i < plan_.preparations.size(); ++i)
      check_once(plan_.preparations[i], "preparation " + std::to_string(i), Buffer::Kind::prepared);
    check_replaced();
    for (size_t i = 0; i < plan_.launches.size(); ++i) check_launch(static_cast<int>(i));
    check_overlaps();
    return std::move(faults_);
  }

 private:
  const Buffer& buffer(int number) const { return plan_.buffers[static_cast<size_t>(number)]; }
  static std::string quoted(const Buffer& buffer) { return "`" + buffer.name + "`"; }

  void check_buffer(size_t number) {
    const Buffer& b = plan_.buffers[number];
    if (b.kind == Buffer::Kind::arena) {
      if (b.offset % kArenaAlignment != 0)
        faults_.push_back("buffer " + quoted(b) + " is at " + std::to_string(b.offset) + ", which is not aligned");
      if (b.offset < 0 || b.offset + b.size_bytes > plan_.arena_bytes)
        faults_.push_back("buffer " + quoted(b) + " reaches beyond the arena");
    }
    if (b.kind == Buffer::Kind::state) {
      if (b.index != 0 && b.index != 1) faults_.push_back("buffer " + quoted(b) + " is in a block of state that there is not");
      if (b.offset < 0 || b.offset % kAddressAlignment != 0)
        faults_.push_back("buffer " + quoted(b) + " is at " + std::to_string(b.offset) + " of the state, which is not aligned");
    }
    check_packed(b, Buffer::Kind::input, plan_.first_packed_input, plan_.packed_input_bytes);
    check_packed(b, Buffer::Kind::output, plan_.first_packed_output, plan_.packed_output_bytes);
    if (b.kind != Buffer::Kind::alias) {
      if (b.overwrites) faults_.push_back("buffer " + quoted(b) + " overwrites nothing");
      return;
    }
    // A chain longer than the number of buffers is a cycle.
    size_t steps = 0;
    int at = static_cast<int>(number);
    while (buffer(at).kind == Buffer::Kind::alias) {
      const int base = buffer(at).index;
      if (base < 0 || base >= static_cast<int>(plan_.buffers.size()) || ++steps > plan_.buffers.size()) {
        faults_.push_back("the alias " + quoted(b) + " has no base");
        return;
      }
      if (buffer(at).offset < 0 || buffer(at).offset + buffer(at).size_bytes > buffer(base).size_bytes) {
        faults_.push_back("the alias " + quoted(b) + " reaches beyond its base " + quoted(buffer(base)));
        return;
      }
      if (buffer(at).row_padding != buffer(base).row_padding) faults_.push_back("the alias " + quoted(b) + " has other rows than its base");
      at = base;
    }
  }

  void check_packed(const Buffer& b, Buffer::Kind kind, int first, int64_t bytes) {
    if (b.kind != kind) return;
    if (first < 0 || b.index < first) {
      if (b.offset != 0) faults_.push_back("buffer " + quoted(b) + " has an offset and is not packed");
      return;
    }
    if (b.index > first) faults_.push_back("buffer " + quoted(b) + " comes after the packed tensor");
    if (b.offset % kArenaAlignment != 0 || b.offset < 0 || b.offset + b.size_bytes > bytes)
      faults_.push_back("buffer " + quoted(b) + " has no place in the packed tensor");
  }

  Range range_of(int number) const {
    int64_t offset = 0;
    const int64_t size = buffer(number).size_bytes;
    while (buffer(number).kind == Buffer::Kind::alias) {
      offset += buffer(number).offset;
      number = buffer(number).index;
    }
    const Buffer& base = buffer(number);
    const bool state = base.kind == Buffer::Kind::state;
    if (state) offset += base.offset;
    return {number, state ? -1 - base.index : number, offset, offset + size};
  }

  /// The buffer whose value this one is (part of): aliases lead to it, but for those that overwrite.
  int holder_of(int number) const {
    while (buffer(number).kind == Buffer::Kind::alias && !buffer(number).overwrites) number = buffer(number).index;
    return number;
  }

  /// Whether the bytes hold the value that the buffer stands for.
  bool holds(int number, const Range& range) {
    const int holder = holder_of(number);
    const Buffer::Kind kind = buffer(holder).kind;
    if (is_made_once(kind)) return made_.contains(holder);
    if (is_only_read(kind)) return true;
    const int expected = kind == Buffer::Kind::state ? Contents::kInitial : holder;
    return contents_[range.region].all(range.begin, range.end, [&](int found) { return found == expected; });
  }

  void touch(int launch, const Range& range) {
    int& first = first_[static_cast<size_t>(range.buffer)];
    if (first < 0) first = launch;
    last_[static_cast<size_t>(range.buffer)] = launch;
  }

  static bool is_only_read(Buffer::Kind kind) {
    return kind == Buffer::Kind::input || kind == Buffer::Kind::weight || kind == Buffer::Kind::scalar || is_made_once(kind);
  }
  static bool is_made_once(Buffer::Kind kind) { return kind == Buffer::Kind::constant || kind == Buffer::Kind::prepared; }

  /// Whether all arguments are buffers.
  bool check_arguments(const Launch& launch, const std::string& where) {
    const bool all = std::all_of(launch.arguments.begin(), launch.arguments.end(),
                                 [&](int argument) { return argument >= 0 && argument < static_cast<int>(plan_.buffers.size()); });
    if (!all) faults_.push_back(where + " names a buffer that is not there");
    return all;
  }

  /// What runs once makes buffers of a kind, each one time, of weights and of what was made so before.
  void check_once(const Launch& launch, const std::string& number, Buffer::Kind kind) {
    const std::string where = number + " \"" + launch.label + "\"";
    if (!check_arguments(launch, where)) return;
    if (launch.kind != Launch::Kind::kernel || launch.kernel < 0 || launch.kernel >= static_cast<int>(plan_.kernels.size()) ||
        plan_.kernels[static_cast<size_t>(launch.kernel)].params.size() != launch.arguments.size()) {
      faults_.push_back(where + " runs a kernel that is not there");
      return;
    }
    const loop::Kernel& kernel = plan_.kernels[static_cast<size_t>(launch.kernel)];
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      const Buffer& argument = buffer(launch.arguments[i]);
      if (argument.dtype != kernel.params[i].buffer->dtype || argument.shape != kernel.params[i].buffer->extents)
        faults_.push_back(where + " gives " + quoted(argument) + " for a parameter of another type");
      if (kernel.params[i].written) {
        if (argument.kind != kind || !made_.insert(launch.arguments[i]).second)
          faults_.push_back(where + " writes to " + quoted(argument) + ", which is of another kind or was made before");
      } else if (argument.kind != Buffer::Kind::weight && !(is_made_once(argument.kind) && made_.contains(launch.arguments[i]))) {
        faults_.push_back(where + " reads " + quoted(argument) + ", which is not there yet");
      }
    }
  }

  /// The library has a constant in place of the weights that it is made of: nothing else reads these.
  void check_replaced() {
    std::map<int, int> readers;
    for (const std::vector<Launch>* launches : launch_lists(plan_)) {
      for (const Launch& launch : *launches) {
        std::set<int> read;
        for (const int argument : launch.arguments) {
          if (argument >= 0 && argument < static_cast<int>(plan_.buffers.size())) read.insert(range_of(argument).buffer);
        }
        for (const int number : read) readers[number]++;
      }
    }
    for (const Launch& launch : plan_.constants) {
      for (const int argument : launch.arguments) {
        if (argument < 0 || argument >= static_cast<int>(plan_.buffers.size())) continue;
        if (buffer(argument).kind == Buffer::Kind::weight && readers[argument] > 1)
          faults_.push_back("a constant takes the place of " + quoted(buffer(argument)) + ", which is read elsewhere");
      }
    }
  }

  void check_launch(int number) {
    const Launch& launch = plan_.launches[static_cast<size_t>(number)];
    const std::string where = "launch " + std::to_string(number) + " \"" + launch.label + "\"";
    if (!check_arguments(launch, where)) return;
    std::vector<bool> writes(launch.arguments.size()), loads(launch.arguments.size(), true);
    if (launch.kind == Launch::Kind::copy) {
      if (launch.arguments.size() != 2) {
        faults_.push_back(where + " copies with " + std::to_string(launch.arguments.size()) + " arguments, expected 2");
        return;
      }
      if (buffer(launch.arguments[0]).size_bytes != buffer(launch.arguments[1]).size_bytes)
        faults_.push_back(where + " copies between buffers of different sizes");
      writes[1] = true;
      loads[1] = false;
    } else {
      if (launch.kernel < 0 || launch.kernel >= static_cast<int>(plan_.kernels.size())) {
        faults_.push_back(where + " runs a kernel that is not there");
        return;
      }
      const loop::Kernel& kernel = plan_.kernels[static_cast<size_t>(launch.kernel)];
      if (kernel.params.size() != launch.arguments.size()) {
        faults_.push_back(where + " has " + std::to_string(launch.arguments.size()) + " arguments, the kernel " +
                          std::to_string(kernel.params.size()) + " parameters");
        return;
      }
      const int num_checks = loop::num_index_checks(kernel.body);
      const bool has_checks = launch.first_check >= 0;
      if (has_checks != (num_checks > 0) || (has_checks && launch.first_check + num_checks > static_cast<int>(plan_.checks.size())))
        faults_.push_back(where + " has checks from " + std::to_string(launch.first_check) + " on, its kernel " +
                          std::to_string(num_checks) + ", the plan " + std::to_string(plan_.checks.size()));
      if (kernel.grid != launch.grid) faults_.push_back(where + " has another grid than its kernel");
      loads = loaded_by(launch.kernel);
      for (size_t i = 0; i < kernel.params.size(); ++i) {
        const loop::Buffer& param = *kernel.params[i].buffer;
        writes[i] = kernel.params[i].written;
        if (buffer(launch.arguments[i]).dtype != param.dtype || buffer(launch.arguments[i]).shape != param.extents ||
            buffer(launch.arguments[i]).row_padding != param.row_padding()) {
          faults_.push_back(where + " gives " + quoted(buffer(launch.arguments[i])) + " for a parameter of another type");
        }
      }
    }
    for (size_t i = 0; i < writes.size(); ++i) {
      const Range range = range_of(launch.arguments[i]);
      const Buffer& argument = buffer(launch.arguments[i]);
      touch(number, range);
      const Buffer& base = buffer(range.buffer);
      if (writes[i] && is_only_read(base.kind)) faults_.push_back(where + " writes to " + quoted(base) + ", which is only read");
      if (!writes[i] && !holds(launch.arguments[i], range))
        faults_.push_back(where + " reads " + quoted(argument) + ", which is not there");
      if (writes[i] && loads[i]) check_update(where, launch.arguments[i], range);
      if (launch.kind == Launch::Kind::kernel && range.begin % kAddressAlignment != 0)
        faults_.push_back(where + " is given " + quoted(argument) + ", which is not aligned");
      for (size_t k = 0; k < i; ++k) {
        if ((writes[i] || writes[k]) && range.overlaps(range_of(launch.arguments[k])))
          faults_.push_back(where + " writes to " + quoted(base) + " under two names");
      }
    }
    for (size_t i = 0; i < writes.size(); ++i) {
      if (writes[i]) write(where, launch.arguments[i]);
    }
  }

  const std::vector<bool>& loaded_by(int kernel) {
    const auto [at, is_new] = loaded_.try_emplace(kernel);
    if (is_new) at->second = loop::loaded_parameters(plan_.kernels[static_cast<size_t>(kernel)]);
    return at->second;
  }

  /// A kernel that writes over what it loads finds the old value, or what an earlier kernel of its unit wrote.
  void check_update(const std::string& where, int argument, const Range& range) {
    const int holder = holder_of(argument);
    if (!buffer(holder).overwrites) return;  // it loads what it stored itself
    const bool updated = contents_[range.region].all(range.begin, range.end, [&](int found) { return found == holder; });
    if (!updated && !holds(buffer(holder).index, range))
      faults_.push_back(where + " updates " + quoted(buffer(argument)) + ", whose old value is not there");
  }

  void write(const std::string& where, int argument) {
    const Range range = range_of(argument);
    const int holder = holder_of(argument);
    Contents& contents = contents_[range.region];
    const bool state = buffer(range.buffer).kind == Buffer::Kind::state;
    if (state && !contents.all(range.begin, range.end, [&](int found) { return found == Contents::kInitial || found == holder; }))
      faults_.push_back(where + " writes the state of " + quoted(buffer(range.buffer)) + " a second time");
    contents.set(range.begin, range.end, holder);
  }

  void check_overlaps() {
    std::vector<int> order;
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (plan_.buffers[i].kind == Buffer::Kind::arena && first_[i] >= 0 && plan_.buffers[i].size_bytes > 0)
        order.push_back(static_cast<int>(i));
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) { return buffer(a).offset < buffer(b).offset; });
    for (size_t i = 0; i < order.size(); ++i) {
      const int a = order[i];
      for (size_t k = i + 1; k < order.size() && buffer(order[k]).offset < buffer(a).offset + buffer(a).size_bytes; ++k) {
        const int b = order[k];
        if (first_[static_cast<size_t>(a)] <= last_[static_cast<size_t>(b)] &&
            first_[static_cast<size_t>(b)] <= last_[static_cast<size_t>(a)]) {
          faults_.push_back("buffers " + quoted(buffer(a)) + " and " + quoted(buffer(b)) + " overlap while both are in use");
        }
      }
    }
  }

  const Plan& plan_;
  std::vector<std::string> faults_;
  std::map<int, Contents> contents_;  ///< by region
  std::set<int> made_;                ///< constants, and what is prepared
  std::map<int, std::vector<bool>> loaded_;
  std::vector<int> first_, last_;  ///< launches that use a buffer, -1 for none
};

}  // namespace

std::vector<std::string> verify(const Plan& plan) { return Verifier(plan).run(); }

}  // namespace tcc::plan
