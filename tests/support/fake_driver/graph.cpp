// Stream capture. Work is a closure here, so a graph is a list of them; only one stream is captured
// at a time.
#include "driver.hpp"

namespace fake {
using Graph = std::vector<Work>;
}

using namespace fake;

extern "C" {

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
    ENTER();
    Stream *stream = stream_of(handle);
    if (!stream || stream == stream_of(nullptr)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = new Graph;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
    ENTER();
    Stream *stream = stream_of(handle);
    if (!stream || !stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    *graph = (CUgraph)stream->capture;
    stream->capture = nullptr;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long) {
    ENTER();
    *executable = (CUgraphExec) new Graph(*(Graph *)graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    ENTER();
    return put(stream, [graph = *(Graph *)executable]() mutable {
        for (Work &work : graph)
            if (CUresult error = work()) return error;
        return CUDA_SUCCESS;
    });
}

CUresult cuGraphDestroy(CUgraph graph) {
    ENTER();
    delete (Graph *)graph;
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
    ENTER();
    delete (Graph *)executable;
    return CUDA_SUCCESS;
}

}  // extern "C"
