// Streams and events. Work waits on its stream until somebody waits for it: a missing
// synchronisation is stale data in every run, not in one of a thousand.
#include "driver.hpp"

#include <chrono>

namespace fake {

static Stream legacy;  // stream 0, which waits for all blocking streams, and they for it
static std::set<Stream *> streams{&legacy};

static double now() {
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

Stream *stream_of(CUstream handle) {
    if ((uintptr_t)handle <= (uintptr_t)CU_STREAM_PER_THREAD) return &legacy;
    return streams.count((Stream *)handle) ? (Stream *)handle : nullptr;
}

static void run_blocking_streams() {
    for (Stream *stream : std::set<Stream *>(streams))
        if (stream != &legacy && stream->blocking()) run(stream);
}

// Takes the first piece of work off a stream and does it. After a failed launch nothing runs any
// more.
static void step(Stream *stream) {
    Work work = std::move(stream->waiting.front());
    stream->waiting.pop_front();
    if (stream == &legacy) run_blocking_streams();
    CUresult result = sticky ? sticky : work();
    if (result && !sticky) sticky = result;
}

CUresult run(Stream *stream) {
    while (!stream->waiting.empty()) step(stream);
    return sticky;
}

CUresult run_everything() {
    for (Stream *stream : std::set<Stream *>(streams)) run(stream);
    return sticky;
}

CUresult put(CUstream handle, Work work) {
    Stream *stream = stream_of(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) {
        stream->capture->push_back(std::move(work));
        return CUDA_SUCCESS;
    }
    if (stream != &legacy && stream->blocking()) run(&legacy);
    stream->waiting.push_back(std::move(work));
    return sticky;
}

// Runs a stream as far as an event that was recorded on it.
static CUresult reach(const std::shared_ptr<Record> &record) {
    while (record && !record->done && !record->stream->waiting.empty()) step(record->stream);
    return sticky;
}

}  // namespace fake

using namespace fake;

extern "C" {

CUresult cuStreamCreate(CUstream *handle, unsigned flags) {
    ENTER();
    Stream *stream = new Stream;
    stream->flags = flags;
    streams.insert(stream);
    *handle = (CUstream)stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle) {
    ENTER();
    Stream *stream = stream_of(handle);
    if (!stream || stream == &legacy) return CUDA_ERROR_INVALID_HANDLE;
    run(stream);
    streams.erase(stream);
    delete stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
    ENTER();
    Stream *stream = stream_of(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream == &legacy) run_blocking_streams();
    return run(stream);
}

CUresult cuStreamQuery(CUstream handle) {
    ENTER();
    Stream *stream = stream_of(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    return stream->waiting.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
    ENTER();
    std::shared_ptr<Record> record =
        ((Event *)event)->record;  // as it is now: a later record does not count
    return put(handle, [record] { return reach(record); });
}

CUresult cuEventCreate(CUevent *handle, unsigned flags) {
    ENTER();
    Event *event = new Event;
    event->flags = flags;
    *handle = (CUevent)event;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
    ENTER();
    delete (Event *)event;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
    ENTER();
    auto record = std::make_shared<Record>();
    record->stream = stream_of(stream);
    ((Event *)handle)->record = record;
    return put(stream, [record] {
        record->milliseconds = now();
        record->done = true;
        return CUDA_SUCCESS;
    });
}

CUresult cuEventSynchronize(CUevent event) {
    ENTER();
    return reach(((Event *)event)->record);
}

CUresult cuEventQuery(CUevent event) {
    ENTER();
    const auto &record = ((Event *)event)->record;
    return !record || record->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    ENTER();
    const Event *from = (Event *)start, *to = (Event *)end;
    if (!from->record || !to->record || ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!from->record->done || !to->record->done) return CUDA_ERROR_NOT_READY;
    *milliseconds = to->record->milliseconds - from->record->milliseconds;
    return CUDA_SUCCESS;
}

}  // extern "C"
