// The memory that a checked kernel may touch: what the caller names, and the block's shared memory.
#include <stdlib.h>
#include <string.h>

#include "checker.h"

// The unit in memory, as the linker knows it.
extern "C" {
extern __attribute__((visibility("hidden"))) char __ehdr_start[], _end[];
extern __attribute__((visibility("hidden"))) char noeira_dynamic[];
}

namespace noeira {

// For the next launch of this thread: other threads may prepare theirs at the same time.
static thread_local const Described *described;
static thread_local int described_count = -1;

// `count` regions for the next launch by this thread; until then they must stay where they are.
// Without this call, any memory outside the unit may be touched.
NOEIRA_EXPORT void noeira_regions(const Described *regions, int count) {
    described = regions;
    described_count = count;
}

static Region *regions;
static int count, last;
static bool given;

static bool add(const Described &is) {
    Region &region = regions[count];
    region.is = is;
    region.cell_bytes = (uintptr_t)is.pointer % 4 == 0 ? 4 : 1;
    region.cells = (Cell *)calloc(is.bytes / region.cell_bytes + 1, sizeof(Cell));
    if (region.cells == nullptr) return false;
    count++;
    return true;
}

bool open_regions() {
    given = described_count >= 0;
    int number = given ? described_count : 0;
    regions = (Region *)calloc(number + 2, sizeof(Region));
    if (regions == nullptr) return false;
    count = last = 0;
    bool fine = add({noeira_dynamic, machine.shared_bytes, "dynamic shared memory", nullptr, 1,
        WRITABLE | SHARED});
    bool arrays = false;
    for (int i = 0; i < number; i++) {
        arrays |= (described[i].flags & SHARED) != 0;
        fine = fine && add(described[i]);
    }
    const Kernel &kernel = machine.kernel;
    if (!arrays && kernel.shared_end > kernel.shared) {
        size_t bytes = kernel.shared_end - kernel.shared;
        fine = fine
            && add({kernel.shared, bytes, "static shared memory", nullptr, 1, WRITABLE | SHARED});
    }
    described_count = -1;
    if (!fine) close_regions();
    return fine;
}

void close_regions() {
    for (int i = 0; i < count; i++) free(regions[i].cells);
    free(regions);
    regions = nullptr;
    count = 0;
}

bool knows_regions() { return given; }

Region *region_at(const char *pointer) {
    if (pointer >= regions[last].is.pointer && pointer < regions[last].end()) return &regions[last];
    for (int i = 0; i < count; i++) {
        if (pointer < regions[i].is.pointer || pointer >= regions[i].end()) continue;
        last = i;
        return &regions[i];
    }
    return nullptr;
}

Region *nearest_region(const char *pointer) {
    Region *nearest = nullptr;
    size_t least = ~(size_t)0;
    for (int i = 0; i < count; i++) {
        Region &region = regions[i];
        size_t distance = pointer < region.is.pointer ? region.is.pointer - pointer
                                                      : pointer - region.end();
        if (distance < least) {
            least = distance;
            nearest = &region;
        }
    }
    return nearest;
}

// The unit's own constants and variables; its shared memory is not meant.
bool in_unit(const char *pointer) {
    if (pointer < __ehdr_start || pointer >= _end) return false;
    if (pointer >= noeira_dynamic && pointer < noeira_dynamic + NOEIRA_DYNAMIC_BYTES) return false;
    return pointer < machine.kernel.shared || pointer >= machine.kernel.shared_end;
}

bool split_cells(Region *region) {
    Cell *fine = (Cell *)calloc(region->is.bytes + 1, sizeof(Cell));
    if (fine == nullptr) return false;
    for (size_t i = 0; i < region->is.bytes; i++) fine[i] = region->cells[i / region->cell_bytes];
    free(region->cells);
    region->cells = fine;
    region->cell_bytes = 1;
    return true;
}

uint32_t place_of(const void *code) {
    return code == nullptr ? 0 : (uint32_t)((const char *)code - __ehdr_start);
}

}  // namespace noeira
