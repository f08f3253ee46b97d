// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/attribute_mount.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUSE_USE_VERSION 31
#include <fuse3/fuse.h>
#include <fuse3/fuse_lowlevel.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "driver/base/format.h"
#include "driver/base/guarded.h"
#include "driver/emulator/service/attributes.h"
#include "driver/emulator/service/instance.h"

namespace neuron::transport {
namespace {

using service::Attribute;
using service::Attributes;
using service::Instance;

constexpr size_t kFileBytes = 4096;  // what sysfs says, however short the text is

std::string modes_of(const service::PodAttributes& pod) {
  std::string text;
  for (unsigned mode = 0; mode < 32; ++mode) {
    if ((pod.modes >> mode & 1) != 0) text += (text.empty() ? "" : ",") + std::to_string(mode);
  }
  return text;
}

// Of the class: the host's place in its UltraServer.
struct ClassFile {
  const char* name;
  std::string (*text)(const service::PodAttributes& pod);
};
constexpr ClassFile kClassFiles[] = {
    {"node_id_2", [](const service::PodAttributes& pod) { return std::to_string(pod.node_of_2); }},
    {"node_id_4", [](const service::PodAttributes& pod) { return std::to_string(pod.node_of_4); }},
    {"server_id_2",
     [](const service::PodAttributes& pod) { return base::format("{:016x}", pod.server_of_2); }},
    {"server_id_4",
     [](const service::PodAttributes& pod) { return base::format("{:016x}", pod.server_of_4); }},
    {"ultraserver_mode", modes_of},
};

using Instances = std::vector<Instance*>;

// A path, taken apart: the host, the device and what lies below it.
struct Place {
  bool nodes = false;  // the top, where each host has a folder
  bool top = false;    // a host's folder, or the top where there is one host
  Instance* instance = nullptr;
  const ClassFile* of_class = nullptr;
  bool of_device = false;
  unsigned device = 0;
  std::string_view path;  // below the device's folder; "" for the folder itself
};

// Takes "<prefix>3" from the front of a path, with the slash behind it. "neuron03" is no name.
bool take_numbered(std::string_view& path, std::string_view prefix, unsigned& number) {
  if (!path.starts_with(prefix)) return false;
  const size_t slash = std::min(path.find('/'), path.size());
  const std::string_view digits = path.substr(prefix.size(), slash - prefix.size());
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() ||
      std::to_string(number) != digits) {
    return false;
  }
  path = path.substr(std::min(slash + 1, path.size()));
  return true;
}

bool locate(const Instances& instances, const char* text, Place& place) {
  std::string_view path = text;
  path.remove_prefix(1);
  unsigned node = 0;
  if (instances.size() > 1) {
    place.nodes = path.empty();
    if (place.nodes) return true;
    if (!take_numbered(path, "node", node) || node >= instances.size()) return false;
  }
  place.instance = instances[node];
  place.top = path.empty();
  if (place.top) return true;
  for (const ClassFile& file : kClassFiles) {
    if (path == file.name) place.of_class = &file;
  }
  if (place.of_class) return true;
  if (!take_numbered(path, "neuron", place.device) ||
      place.device >= place.instance->device_count()) {
    return false;
  }
  place.of_device = true;
  place.path = path;
  return true;
}

const Instances& instances_of_call() {
  return *static_cast<const Instances*>(fuse_get_context()->private_data);
}

template <typename Call>
int guarded(Call&& call) {
  return base::guarded(std::forward<Call>(call), [](const char*, bool) { return -ENOMEM; });
}

int get_attributes(const char* path, struct stat* status, fuse_file_info*) {
  return guarded([&] {
    Place place;
    if (!locate(instances_of_call(), path, place)) return -ENOENT;
    *status = {};
    status->st_uid = ::geteuid();
    status->st_gid = ::getegid();
    const auto folder = [&] {
      status->st_mode = S_IFDIR | 0755;
      status->st_nlink = 2;
      return 0;
    };
    const auto file = [&](unsigned mode) {
      status->st_mode = S_IFREG | mode;
      status->st_nlink = 1;
      status->st_size = kFileBytes;
      return 0;
    };
    if (place.nodes || place.top || (place.of_device && place.path.empty())) return folder();
    if (place.of_class) return file(0444);
    const Attributes attributes(*place.instance, place.device);
    if (const Attribute* found = attributes.find(place.path)) return file(found->mode);
    return attributes.is_folder(place.path) ? folder() : -ENOENT;
  });
}

int read_folder(const char* path, void* buffer, fuse_fill_dir_t fill, off_t, fuse_file_info*,
                fuse_readdir_flags) {
  return guarded([&] {
    Place place;
    if (!locate(instances_of_call(), path, place) || place.of_class) return -ENOENT;
    const auto add = [&](const std::string& name) {
      return fill(buffer, name.c_str(), nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
    };
    add(".");
    add("..");
    if (place.nodes) {
      for (size_t i = 0; i < instances_of_call().size(); ++i) add("node" + std::to_string(i));
      return 0;
    }
    if (place.top) {
      for (unsigned i = 0; i < place.instance->device_count(); ++i) {
        add("neuron" + std::to_string(i));
      }
      for (const ClassFile& file : kClassFiles) add(file.name);
      return 0;
    }
    std::string names;
    if (int error = Attributes(*place.instance, place.device).list(place.path, names)) return error;
    for (size_t at = 0; at < names.size();) {
      const size_t end = names.find('\n', at);
      std::string name = names.substr(at, end - at);
      if (name.ends_with('/')) name.pop_back();
      add(name);
      at = end + 1;
    }
    return 0;
  });
}

int open_file(const char* path, fuse_file_info* file) {
  return guarded([&] {
    Place place;
    if (!locate(instances_of_call(), path, place)) return -ENOENT;
    auto text = std::make_unique<std::string>();
    if (place.of_class) {
      const service::PodAttributes pod = place.instance->pod().attributes();
      *text = (pod.electing ? "busy" : place.of_class->text(pod)) + "\n";
    } else {
      const Attributes attributes(*place.instance, place.device);
      const Attribute* found = attributes.find(place.path);
      if (!found) return -ENOENT;
      if ((file->flags & O_ACCMODE) != O_RDONLY && (found->mode & 0200) == 0) return -EACCES;
      if ((file->flags & O_ACCMODE) != O_WRONLY) {
        if (int error = attributes.read(place.path, *text)) return error;
      }
    }
    // Texts change and are shorter than their files seem: no page of them is kept.
    file->direct_io = 1;
    file->fh = reinterpret_cast<uint64_t>(text.release());
    return 0;
  });
}

int read_file(const char*, char* buffer, size_t size, off_t offset, fuse_file_info* file) {
  const std::string& text = *reinterpret_cast<const std::string*>(file->fh);
  if (offset < 0 || static_cast<size_t>(offset) >= text.size()) return 0;
  return static_cast<int>(text.copy(buffer, size, static_cast<size_t>(offset)));
}

int write_file(const char* path, const char* buffer, size_t size, off_t, fuse_file_info*) {
  return guarded([&] {
    Place place;
    if (!locate(instances_of_call(), path, place) || !place.of_device) return -EACCES;
    const int error = Attributes(*place.instance, place.device).write(place.path, {buffer, size});
    return error ? error : static_cast<int>(size);
  });
}

int release_file(const char*, fuse_file_info* file) {
  delete reinterpret_cast<std::string*>(file->fh);
  return 0;
}

// "> file" asks for it before the write.
int truncate_file(const char*, off_t, fuse_file_info*) { return 0; }

fuse_operations operations() {
  fuse_operations made{};
  made.getattr = get_attributes;
  made.readdir = read_folder;
  made.open = open_file;
  made.read = read_file;
  made.write = write_file;
  made.release = release_file;
  made.truncate = truncate_file;
  return made;
}

std::string why_not(const std::string& folder) {
  struct stat status;
  if (::access("/dev/fuse", F_OK) != 0) {
    return "/dev/fuse does not exist; load the module (modprobe fuse), or give the container the "
           "device";
  }
  if (::stat(folder.c_str(), &status) != 0) {
    return errno == ENOTCONN ? "something that ended is still mounted there; unmount it with "
                               "fusermount3 -u"
                             : std::string(std::strerror(errno)) + "; make the folder";
  }
  if (!S_ISDIR(status.st_mode)) return "it is no folder";
  return "mounting was refused; it needs root (in a container: CAP_SYS_ADMIN), or fusermount3 of "
         "the package fuse3";
}

class Mount final : public AttributeMount {
 public:
  Mount(Instances instances, std::string folder, int stop)
      : instances_(std::move(instances)), folder_(std::move(folder)), stop_(stop) {}

  ~Mount() override {
    const uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof(one));
    if (thread_.joinable()) thread_.join();
    if (fuse_) {
      if (mounted_) fuse_unmount(fuse_);
      fuse_destroy(fuse_);
    }
    ::close(stop_);
  }

  bool start() {
    char program[] = "neuron-emulatord";
    char option[] = "-o";
    char root[] = "allow_other,default_permissions,fsname=neuron,subtype=attributes";
    char user[] = "default_permissions,fsname=neuron,subtype=attributes";
    // Sysfs is for everybody. A user other than root may share a mount only where the host allows
    // it.
    char* words[] = {program, option, ::geteuid() == 0 ? root : user};
    fuse_args arguments = FUSE_ARGS_INIT(3, words);
    static const fuse_operations kOperations = operations();
    fuse_ = fuse_new(&arguments, &kOperations, sizeof(kOperations), &instances_);
    fuse_opt_free_args(&arguments);
    if (!fuse_ || fuse_mount(fuse_, folder_.c_str()) != 0) return false;
    mounted_ = true;
    thread_ = std::thread([this] { serve(); });
    return true;
  }

 private:
  void serve() {
    fuse_session* session = fuse_get_session(fuse_);
    fuse_buf buffer{};
    // bounded: by the destructor, or by an unmount of the folder
    while (!fuse_session_exited(session)) {
      constexpr int kLookMs = 1000;
      pollfd ready[] = {{fuse_session_fd(session), POLLIN, 0}, {stop_, POLLIN, 0}};
      if (::poll(ready, 2, kLookMs) < 0 && errno != EINTR) break;
      if (ready[1].revents != 0) break;
      if (ready[0].revents == 0) continue;
      const int length = fuse_session_receive_buf(session, &buffer);
      if (length == -EINTR || length == -EAGAIN) continue;
      if (length <= 0) break;
      fuse_session_process_buf(session, &buffer);
    }
    std::free(buffer.mem);
  }

  Instances instances_;  // which calls are given a pointer to
  const std::string folder_;
  const int stop_;
  struct fuse* fuse_ = nullptr;
  bool mounted_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<AttributeMount> AttributeMount::mount(Instances instances,
                                                      const std::string& folder,
                                                      std::string& error) {
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  const auto refuse = [&](const std::string& why) {
    error = "--sysfs " + folder + ": " + why;
    return nullptr;
  };
  if (stop < 0) return refuse(std::strerror(errno));
  auto made = std::make_unique<Mount>(std::move(instances), folder, stop);
  struct stat status;
  const bool folder_there = ::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  if (!folder_there || ::access("/dev/fuse", F_OK) != 0) return refuse(why_not(folder));
  try {
    if (!made->start()) return refuse(why_not(folder));
  } catch (const std::exception&) {  // std::system_error or std::bad_alloc
    return refuse("the host gives no thread for it; lift the limit of threads (ulimit -u)");
  }
  return made;
}

}  // namespace neuron::transport
