// A disk for tests that stands before a real one: it writes down what is asked of the queue, and fails what it is told to.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/disk.h"

namespace tiercel {

struct FaultyDiskHooks {
  std::function<void(const std::string& path)> on_open;
  // Looked at before a queued request is handed on; an error ends it without touching the disk.
  std::function<std::optional<Error>(const IoRequest&)> on_request;
  std::function<std::optional<Error>(const std::string& path, std::uint64_t bytes)> on_allocate;
  std::function<void(const IoCompletion&, IoType, const std::string& path)> on_completion;
};

class FaultyDisk final : public Disk {
 public:
  explicit FaultyDisk(Disk& real) : real_(real) {}

  FaultyDiskHooks hooks;

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    if (hooks.on_open) hooks.on_open(path);
    return wrap(real_.open(path, mode));
  }
  Result<std::unique_ptr<File>> open_directory(const std::string& path) override {
    return wrap(real_.open_directory(path));
  }
  Result<void> make_directory(const std::string& path) override {
    return real_.make_directory(path);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return real_.list(path);
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return real_.rename(from, to);
  }
  Result<void> remove(const std::string& path) override { return real_.remove(path); }
  Result<DiskSpace> space(const std::string& path) override { return real_.space(path); }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path,
                                         const std::string& note) override {
    return real_.lock(path, note);
  }
  Result<std::unique_ptr<FileLock>> lock_shared(const std::string& path) override {
    return real_.lock_shared(path);
  }
  Result<std::unique_ptr<IoQueue>> make_queue(const IoQueueOptions& options) override {
    TIERCEL_TRY(auto queue, real_.make_queue(options));
    return std::make_unique<FaultyQueue>(hooks, std::move(queue));
  }
  std::vector<std::string> notes() const override { return real_.notes(); }

 private:
  class FaultyFile final : public File {
   public:
    FaultyFile(FaultyDiskHooks& hooks, std::unique_ptr<File> real)
        : hooks_(hooks), real_(std::move(real)) {}
    File* real() { return real_.get(); }
    const std::string& path() const override { return real_->path(); }
    bool direct() const override { return real_->direct(); }
    IoAlignment alignment() const override { return real_->alignment(); }
    Result<FileStatus> status() const override { return real_->status(); }
    Result<void> allocate(std::uint64_t bytes) override {
      if (hooks_.on_allocate) {
        if (auto error = hooks_.on_allocate(path(), bytes)) return *error;
      }
      return real_->allocate(bytes);
    }
    Result<void> truncate(std::uint64_t bytes) override { return real_->truncate(bytes); }
    Result<void> read(std::uint64_t offset, std::span<std::byte> memory) override {
      return real_->read(offset, memory);
    }
    Result<void> write(std::uint64_t offset, std::span<const std::byte> memory) override {
      return real_->write(offset, memory);
    }
    Result<void> sync() override { return real_->sync(); }

   private:
    FaultyDiskHooks& hooks_;
    std::unique_ptr<File> real_;
  };

  class FaultyQueue final : public IoQueue {
   public:
    FaultyQueue(FaultyDiskHooks& hooks, std::unique_ptr<IoQueue> real)
        : hooks_(hooks), real_(std::move(real)) {}
    bool submit(IoRequest request) override {
      if (hooks_.on_request) {
        if (auto error = hooks_.on_request(request)) {
          failed_.push_back({.tag = request.tag, .result = *std::move(error)});
          return true;
        }
      }
      what_.emplace_back(request.tag, std::pair(request.type, request.file->path()));
      request.file = static_cast<FaultyFile*>(request.file)->real();
      return real_->submit(std::move(request));
    }
    std::size_t in_flight() const override { return real_->in_flight() + failed_.size(); }
    std::size_t poll(std::vector<IoCompletion>& out) override {
      const std::size_t before = out.size();
      real_->poll(out);
      return report(out, before);
    }
    std::size_t wait(std::vector<IoCompletion>& out, std::int64_t timeout_ns) override {
      const std::size_t before = out.size();
      if (failed_.empty()) real_->wait(out, timeout_ns);
      return report(out, before);
    }
    const char* engine_name() const override { return real_->engine_name(); }
    const std::string& fallback_reason() const override { return real_->fallback_reason(); }

   private:
    std::size_t report(std::vector<IoCompletion>& out, std::size_t before) {
      for (std::size_t i = before; i < out.size(); ++i) {
        for (auto entry = what_.begin(); entry != what_.end(); ++entry) {
          if (entry->first != out[i].tag) continue;
          if (hooks_.on_completion)
            hooks_.on_completion(out[i], entry->second.first, entry->second.second);
          what_.erase(entry);
          break;
        }
      }
      for (IoCompletion& completion : failed_) out.push_back(std::move(completion));
      failed_.clear();
      return out.size() - before;
    }

    FaultyDiskHooks& hooks_;
    std::unique_ptr<IoQueue> real_;
    std::vector<IoCompletion> failed_;
    std::vector<std::pair<std::uint64_t, std::pair<IoType, std::string>>> what_;
  };

  Result<std::unique_ptr<File>> wrap(Result<std::unique_ptr<File>> file) {
    if (!file) return file;
    return std::make_unique<FaultyFile>(hooks, *std::move(file));
  }

  Disk& real_;
};

}  // namespace tiercel
