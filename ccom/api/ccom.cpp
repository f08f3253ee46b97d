// SPDX-License-Identifier: Apache-2.0
// The C interface: checks handles, calls the communicator, keeps the sentence of what failed.
#include <ccom/ccom.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>

#include "ccom/api/handle.h"

using neuron::ccom::bad_handle;
using neuron::ccom::Bootstrap;
using neuron::ccom::Communicator;
using neuron::ccom::Error;
using neuron::ccom::fail;
using neuron::ccom::good_handle;
using neuron::ccom::guarded;
using neuron::ccom::make_handle;
using neuron::ccom::read_settings;
using neuron::ccom::Result;
using neuron::ccom::set_last_error;
using neuron::ccom::Settings;
using neuron::ccom::Started;
using neuron::ccom::Streams;

namespace {

// The status of the result. Keeps its sentence as the thread's last error.
template <class T>
ccom_status_t status_of(const Result<T>& result) {
  return result ? CCOM_SUCCESS : set_last_error(result.error());
}

// Calls `work` with the body of the handle, if the handle is valid.
template <class Work>
ccom_status_t with(const ccom_comm_t* comm, const char* function, Work&& work) {
  return guarded([&] {
    if (!good_handle(comm)) {
      return set_last_error(bad_handle(comm, function));
    }
    return work(*comm->body);
  });
}

ccom_status_t null_argument(const char* function, const char* name) {
  return set_last_error(fail(CCOM_INVALID, "{}: {} is null", function, name));
}

ccom_status_t wrong_size(const char* function, const char* type, size_t given, size_t expected) {
  return set_last_error(fail(CCOM_INVALID,
                             "{}: size_of is {}, sizeof({}) is {}; set it, and compile with the "
                             "header of version {}",
                             function, given, type, expected, ccom_version()));
}

// Hands a new communicator, or its error, to the caller; null if this rank has none.
ccom_status_t hand_over(Result<std::unique_ptr<Communicator>> made, ccom_comm_t** comm) {
  if (!made) {
    return set_last_error(made.error());
  }
  *comm = *made ? make_handle(std::move(*made)) : nullptr;
  return CCOM_SUCCESS;
}

// Sets up each rank in a thread of its own, since each waits for the others.
Result<std::vector<std::unique_ptr<Communicator>>> make_all(uint32_t size,
                                                            const Settings& settings) {
  NEURON_TRY(bootstraps, Bootstrap::join_all(size));
  std::vector<std::unique_ptr<Communicator>> made(size);
  std::vector<Error> errors(size, Error{CCOM_SUCCESS, ""});
  std::vector<std::thread> threads;
  threads.reserve(size);
  for (uint32_t rank = 0; rank < size; ++rank) {
    const auto make = [&, rank] {
      auto result = Communicator::make(std::move(bootstraps[rank]), settings);
      if (result) {
        made[rank] = std::move(*result);
      } else {
        errors[rank] = result.error();
      }
    };
    try {
      threads.emplace_back(make);
    } catch (const std::system_error& error) {
      errors[rank] = fail(CCOM_RESOURCE,
                          "rank {} of {} has no thread: {}; ask for fewer ranks on this host, or "
                          "raise its limit of processes (ulimit -u, a container's pids limit)",
                          rank, size, error.code().message());
      // The threads that were started wait for this rank.
      bootstraps[rank]->abort(errors[rank]);
      break;
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  // Finds the first cause: the other ranks only report that the communicator was aborted.
  const Error* worst = nullptr;
  for (const Error& error : errors) {
    if (error.status != CCOM_SUCCESS && (worst == nullptr || worst->status == CCOM_ABORTED)) {
      worst = &error;
    }
  }
  if (worst != nullptr) {
    return *worst;
  }
  return made;
}

// Frees the request if its operation is over.
ccom_status_t end_request(ccom_request_t* request, const char* function,
                          ccom_status_t (*look)(Started&, Error&)) {
  return guarded([&] {
    if (request == nullptr || request->magic != ccom_request::kMagic) {
      return null_argument(function, "request, or what it points to,");
    }
    if (request->forks != neuron::ccom::forks()) {
      return set_last_error(fail(CCOM_INVALID,
                                 "{}: the request belongs to the process that forked process {}; "
                                 "its parent ends it",
                                 function, getpid()));
    }
    Error error;
    const ccom_status_t status = look(*request->body, error);
    if (status == CCOM_IN_PROGRESS) {
      return status;
    }
    request->magic = 0;
    delete request;
    return status == CCOM_SUCCESS ? status : set_last_error(error);
  });
}

}  // namespace

extern "C" {

ccom_status_t ccom_init(uint32_t rank, uint32_t size, const ccom_options_t* options,
                        ccom_comm_t** comm) {
  return guarded([&] {
    if (comm == nullptr) {
      return null_argument("ccom_init", "comm");
    }
    *comm = nullptr;
    const auto settings = read_settings(options);
    if (!settings) {
      return set_last_error(settings.error());
    }
    auto made = Communicator::join(rank, size, *settings);
    if (!made) {
      return set_last_error(made.error().with("rank {} of {} could not join", rank, size));
    }
    return hand_over(std::move(made), comm);
  });
}

ccom_status_t ccom_init_all(uint32_t size, const ccom_options_t* options, ccom_comm_t** comms) {
  return guarded([&] {
    if (comms == nullptr) {
      return null_argument("ccom_init_all", "comms");
    }
    std::fill_n(comms, size, nullptr);
    const auto settings = read_settings(options);
    if (!settings) {
      return set_last_error(settings.error());
    }
    auto made = make_all(size, *settings);
    if (!made) {
      return set_last_error(made.error());
    }
    for (uint32_t i = 0; i < size; ++i) {
      comms[i] = make_handle(std::move((*made)[i]));
    }
    return CCOM_SUCCESS;
  });
}

ccom_status_t ccom_split(ccom_comm_t* comm, int32_t color, int32_t key, ccom_comm_t** result) {
  return with(comm, "ccom_split", [&](Communicator& body) {
    if (result == nullptr) {
      return null_argument("ccom_split", "result");
    }
    *result = nullptr;
    return hand_over(body.split(color, key), result);
  });
}

ccom_status_t ccom_shrink(ccom_comm_t* comm, ccom_comm_t** result) {
  return with(comm, "ccom_shrink", [&](Communicator& body) {
    if (result == nullptr) {
      return null_argument("ccom_shrink", "result");
    }
    *result = nullptr;
    return hand_over(body.shrink(), result);
  });
}

ccom_status_t ccom_grow(ccom_comm_t* comm, uint32_t size, const char* root, ccom_comm_t** result) {
  return with(comm, "ccom_grow", [&](Communicator& body) {
    if (result == nullptr) {
      return null_argument("ccom_grow", "result");
    }
    *result = nullptr;
    return hand_over(body.grow(size, root != nullptr ? root : ""), result);
  });
}

ccom_status_t ccom_revoke(ccom_comm_t* comm) {
  return with(comm, "ccom_revoke", [&](Communicator& body) {
    body.revoke();
    return CCOM_SUCCESS;
  });
}

ccom_status_t ccom_abort(ccom_comm_t* comm) {
  return with(comm, "ccom_abort", [&](Communicator& body) {
    body.abort("ccom_abort was called");
    return CCOM_SUCCESS;
  });
}

ccom_status_t ccom_free(ccom_comm_t* comm) {
  if (comm == nullptr) {
    return CCOM_SUCCESS;
  }
  return guarded([&] {
    const bool child = comm->magic == ccom_comm::kMagic && comm->body != nullptr &&
                       comm->forks != neuron::ccom::forks();
    if (child) {
      comm->body->forget();
    } else if (!good_handle(comm)) {
      return set_last_error(bad_handle(comm, "ccom_free"));
    }
    comm->body.reset();
    return CCOM_SUCCESS;
  });
}

uint32_t ccom_rank(const ccom_comm_t* comm) { return good_handle(comm) ? comm->body->rank() : 0; }

uint32_t ccom_size(const ccom_comm_t* comm) { return good_handle(comm) ? comm->body->size() : 0; }

ccom_status_t ccom_status(const ccom_comm_t* comm) {
  return with(comm, "ccom_status", [](Communicator& body) { return body.status(); });
}

ccom_status_t ccom_tell(ccom_comm_t* comm, uint64_t number, const char* sentence) {
  return with(comm, "ccom_tell", [&](Communicator& body) {
    if (sentence == nullptr) {
      return null_argument("ccom_tell", "sentence");
    }
    body.tell(number, sentence);
    return CCOM_SUCCESS;
  });
}

ccom_status_t ccom_told(const ccom_comm_t* comm, uint64_t since, ccom_notice_t* notice) {
  return with(comm, "ccom_told", [&](Communicator& body) {
    if (notice == nullptr) {
      return null_argument("ccom_told", "notice");
    }
    if (notice->size_of != sizeof(*notice)) {
      return wrong_size("ccom_told", "ccom_notice_t", notice->size_of, sizeof(*notice));
    }
    const auto told = body.told(since);
    if (!told) {
      return CCOM_IN_PROGRESS;
    }
    notice->number = told->number;
    notice->rank = told->rank;
    // The sentence fits: notice_text() and decode() limit it.
    std::memcpy(notice->sentence, told->sentence.c_str(), told->sentence.size() + 1);
    return CCOM_SUCCESS;
  });
}

ccom_status_t ccom_mem_alloc(ccom_comm_t* comm, size_t size, void** memory) {
  return with(comm, "ccom_mem_alloc", [&](Communicator& body) {
    if (memory == nullptr) {
      return null_argument("ccom_mem_alloc", "memory");
    }
    *memory = nullptr;
    const auto allocated = body.allocate(size);
    if (allocated) {
      *memory = *allocated;
    }
    return status_of(allocated);
  });
}

ccom_status_t ccom_mem_free(ccom_comm_t* comm, void* memory) {
  return with(comm, "ccom_mem_free", [&](Communicator& body) {
    return memory == nullptr ? CCOM_SUCCESS : status_of(body.release(memory));
  });
}

ccom_status_t ccom_memory(const ccom_comm_t* comm, ccom_memory_t* memory) {
  return with(comm, "ccom_memory", [&](const Communicator& body) {
    if (memory == nullptr) {
      return null_argument("ccom_memory", "memory");
    }
    if (memory->size_of != sizeof(*memory)) {
      return wrong_size("ccom_memory", "ccom_memory_t", memory->size_of, sizeof(*memory));
    }
    const auto use = body.memory();
    memory->allocated = use.allocated;
    memory->working = use.working;
    return CCOM_SUCCESS;
  });
}

ccom_status_t ccom_suspend(ccom_comm_t* comm) {
  return with(comm, "ccom_suspend", [](Communicator& body) { return status_of(body.suspend()); });
}

ccom_status_t ccom_resume(ccom_comm_t* comm) {
  return with(comm, "ccom_resume", [](Communicator& body) { return status_of(body.resume()); });
}

ccom_status_t ccom_run(ccom_comm_t* comm, const ccom_collective_t* collective) {
  return with(comm, "ccom_run", [&](Communicator& body) {
    if (collective == nullptr) {
      return null_argument("ccom_run", "collective");
    }
    return status_of(body.run(*collective));
  });
}

ccom_status_t ccom_start(ccom_comm_t* comm, const ccom_collective_t* collective,
                         ccom_request_t** request) {
  return with(comm, "ccom_start", [&](Communicator& body) {
    if (collective == nullptr || request == nullptr) {
      return null_argument("ccom_start", collective == nullptr ? "collective" : "request");
    }
    *request = nullptr;
    auto handle = std::make_unique<ccom_request>();
    handle->forks = neuron::ccom::forks();
    auto started = body.start(*collective);
    if (started) {
      handle->body = std::move(*started);
      *request = handle.release();
    }
    return status_of(started);
  });
}

ccom_status_t ccom_test(ccom_request_t* request) {
  return end_request(request, "ccom_test", &Streams::test);
}

ccom_status_t ccom_wait(ccom_request_t* request) {
  return end_request(request, "ccom_wait", &Streams::wait);
}

ccom_status_t ccom_launch(ccom_comm_t* comm, const ccom_collective_t* collective,
                          const ccom_completion_t* completion) {
  return with(comm, "ccom_launch", [&](Communicator& body) {
    if (collective == nullptr || completion == nullptr) {
      return null_argument("ccom_launch", collective == nullptr ? "collective" : "completion");
    }
    if (completion->size_of != sizeof(*completion)) {
      return wrong_size("ccom_launch", "ccom_completion_t", completion->size_of,
                        sizeof(*completion));
    }
    if (completion->done == nullptr) {
      return null_argument("ccom_launch", "completion->done");
    }
    return status_of(body.launch(*collective, *completion));
  });
}

ccom_status_t ccom_window_open(ccom_comm_t* comm, void* memory, size_t size, uint32_t* window) {
  return with(comm, "ccom_window_open", [&](Communicator& body) {
    if (window == nullptr) {
      return null_argument("ccom_window_open", "window");
    }
    const auto opened = body.open_window(memory, size);
    if (opened) {
      *window = *opened;
    }
    return status_of(opened);
  });
}

ccom_status_t ccom_window_close(ccom_comm_t* comm, uint32_t window) {
  return with(comm, "ccom_window_close",
              [&](Communicator& body) { return status_of(body.close_window(window)); });
}

ccom_status_t ccom_put(ccom_comm_t* comm, uint32_t window, uint32_t target, uint64_t offset,
                       const void* source, size_t size, uint32_t signal) {
  return with(comm, "ccom_put", [&](Communicator& body) {
    return status_of(body.put(window, target, offset, source, size, signal));
  });
}

ccom_status_t ccom_signal(ccom_comm_t* comm, uint32_t window, uint32_t target, uint32_t signal) {
  return with(comm, "ccom_signal", [&](Communicator& body) {
    if (signal == CCOM_NO_SIGNAL) {
      return set_last_error(fail(CCOM_INVALID, "ccom_signal: there is no signal CCOM_NO_SIGNAL"));
    }
    return status_of(body.put(window, target, 0, nullptr, 0, signal));
  });
}

ccom_status_t ccom_wait_signal(ccom_comm_t* comm, uint32_t window, uint32_t source, uint32_t signal,
                               uint64_t count, uint32_t timeout_ms) {
  return with(comm, "ccom_wait_signal", [&](Communicator& body) {
    return status_of(
        body.wait_signal(window, source, signal, count, std::chrono::milliseconds(timeout_ms)));
  });
}

size_t ccom_explain(ccom_comm_t* comm, const ccom_collective_t* collective, char* text,
                    size_t size) {
  size_t length = 0;
  with(comm, "ccom_explain", [&](Communicator& body) {
    if (collective == nullptr) {
      return null_argument("ccom_explain", "collective");
    }
    const auto explanation = body.explain(*collective);
    const std::string& all = explanation ? *explanation : explanation.error().sentence;
    length = all.size();
    if (text != nullptr && size != 0) {
      const size_t fits = std::min(length, size - 1);
      std::memcpy(text, all.data(), fits);
      text[fits] = 0;
    }
    return status_of(explanation);
  });
  return length;
}

ccom_status_t ccom_dump(ccom_comm_t* comm, const char* path) {
  return with(comm, "ccom_dump", [&](Communicator& body) {
    if (path == nullptr) {
      return null_argument("ccom_dump", "path");
    }
    return status_of(body.dump(path));
  });
}

}  // extern "C"
