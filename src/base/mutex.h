// A mutex that clang's -Wthread-safety understands; the standard one carries no annotations.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TIERCEL_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TIERCEL_THREAD_ATTRIBUTE(x)
#endif
#define GUARDED_BY(x) TIERCEL_THREAD_ATTRIBUTE(guarded_by(x))
#define REQUIRES(x) TIERCEL_THREAD_ATTRIBUTE(requires_capability(x))
#define EXCLUDES(x) TIERCEL_THREAD_ATTRIBUTE(locks_excluded(x))

namespace tiercel {

class TIERCEL_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() TIERCEL_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() TIERCEL_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class TIERCEL_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TIERCEL_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() TIERCEL_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits on a Mutex; every wait has a bound (R8: nobody waits without a deadline).
using ConditionVariable = std::condition_variable_any;

}  // namespace tiercel
