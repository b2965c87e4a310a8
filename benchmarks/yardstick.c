/* The yardstick: [KS98]'s optimal algorithm on the workload of [JPCY97], written plainly in C.

   Every process sends with exponential gaps, to one uniform destination or to a uniform number of
   uniform destinations; every copy takes an exponential time. All state is in ordinary structs and
   a destination set is one 64-bit word, so there are at most 64 processes. A copy carries a log of
   its own, and every delivery makes its receiver look again at all copies it holds.

   Usage: yardstick N unicast|multicast RECEIVED WARM_UP SEED MEAN_DELAY MEAN_GAP
   runs until RECEIVED + WARM_UP messages per process are delivered, and prints one line of JSON:
   control entries and model bytes (6 an entry, 2 a destination) per copy sent after the warm-up,
   deliveries, and processor seconds. */

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROCESSES_MAX 64
#define BIT(process) (UINT64_C(1) << (process))

/* An entry says: message `clock` of `sender` may not be overtaken at `dests`. */
struct entry {
    uint64_t dests;
    uint32_t sender, clock;
};

/* Entries by sender, then by clock. */
struct log {
    struct entry *entries;
    int count, room;
};

struct copy {
    uint64_t dests;
    uint32_t sender, clock;
    int count;
    struct entry entries[];
};

struct process {
    struct log log;
    uint32_t clock;
    uint32_t delivered[PROCESSES_MAX]; /* newest message delivered, by sender */
    struct copy **held;
    int held_count, held_room;
};

/* An arrival if there is a copy, else a send. */
struct event {
    double time;
    struct copy *copy;
    int process;
};

static struct process processes[PROCESSES_MAX];
static struct event *heap;
static int heap_count, heap_room;
static struct log merged;
static uint64_t random_state;
static uint64_t copies, entries, destinations, deliveries;

static void *must(void *memory) {
    if (memory == NULL) {
        fputs("yardstick: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

static uint64_t draw(void) { /* xorshift64* */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545F4914F6CDD1D);
}

static int below(int bound) { return (int)((draw() >> 32) * (uint64_t)bound >> 32); }

static double exponential(double mean) {
    return -mean * log(((double)(draw() >> 11) + 0.5) * 0x1p-53);
}

static void schedule(double time, int process, struct copy *copy) {
    if (heap_count == heap_room) {
        heap_room = heap_room ? 2 * heap_room : 256;
        heap = must(realloc(heap, (size_t)heap_room * sizeof *heap));
    }
    int place = heap_count++;
    while (place > 0 && heap[(place - 1) / 2].time > time) {
        heap[place] = heap[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    heap[place] = (struct event){time, copy, process};
}

static struct event next_event(void) {
    struct event first = heap[0], last = heap[--heap_count];
    int place = 0;
    for (int child = 1; child < heap_count; child = 2 * place + 1) {
        if (child + 1 < heap_count && heap[child + 1].time < heap[child].time) child++;
        if (last.time <= heap[child].time) break;
        heap[place] = heap[child];
        place = child;
    }
    heap[place] = last;
    return first;
}

static void reserve(struct log *log, int count) {
    if (count <= log->room) return;
    log->room = 2 * count + 64;
    log->entries = must(realloc(log->entries, (size_t)log->room * sizeof *log->entries));
}

/* PURGE_NULL_ENTRIES: of the entries without destinations keep each sender's newest only. */
static int purge(struct entry *list, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int is_newest = i + 1 == count || list[i + 1].sender != list[i].sender;
        if (list[i].dests != 0 || is_newest) list[kept++] = list[i];
    }
    return kept;
}

/* Insert the newest entry of its sender. */
static void insert(struct log *log, struct entry entry) {
    reserve(log, log->count + 1);
    int place = log->count++;
    for (; place > 0 && log->entries[place - 1].sender > entry.sender; place--)
        log->entries[place] = log->entries[place - 1];
    log->entries[place] = entry;
}

static uint64_t choose_destinations(int n, int me, int is_multicast) {
    int others[PROCESSES_MAX], count = is_multicast ? 1 + below(n - 1) : 1;
    uint64_t dests = 0;
    for (int i = 0; i < n - 1; i++) others[i] = i + (i >= me);
    for (int i = 0; i < count; i++) {
        int chosen = i + below(n - 1 - i), other = others[chosen];
        others[chosen] = others[i];
        dests |= BIT(other);
    }
    return dests;
}

/* SND: every copy gets a log; then the sender forgets what the message takes care of. */
static void send(int me, uint64_t dests, double now, double mean_delay, int is_measured) {
    struct process *self = &processes[me];
    struct log *log = &self->log;
    self->clock++;
    for (uint64_t rest = dests; rest != 0; rest &= rest - 1) {
        int dest = __builtin_ctzll(rest);
        struct copy *copy =
            must(malloc(sizeof *copy + (size_t)log->count * sizeof *copy->entries));
        copy->dests = dests;
        copy->sender = (uint32_t)me;
        copy->clock = self->clock;
        uint64_t gone = dests & ~BIT(dest);
        for (int i = 0; i < log->count; i++) {
            copy->entries[i] = log->entries[i];
            copy->entries[i].dests &= ~gone;
        }
        copy->count = purge(copy->entries, log->count);
        if (is_measured) {
            copies++;
            entries += (uint64_t)copy->count;
            for (int i = 0; i < copy->count; i++)
                destinations += (uint64_t)__builtin_popcountll(copy->entries[i].dests);
        }
        schedule(now + exponential(mean_delay), dest, copy);
    }
    for (int i = 0; i < log->count; i++) log->entries[i].dests &= ~dests;
    insert(log, (struct entry){dests, (uint32_t)me, self->clock});
    log->count = purge(log->entries, log->count);
}

/* RCV(1): everything that may not be overtaken here has been delivered. */
static int is_deliverable(const struct process *self, const struct copy *copy, uint64_t me) {
    for (int i = 0; i < copy->count; i++) {
        const struct entry *entry = &copy->entries[i];
        if ((entry->dests & me) != 0 && entry->clock > self->delivered[entry->sender]) return 0;
    }
    return 1;
}

/* The end of the run of entries that have the sender of the entry at `i`. */
static int run_end(const struct entry *list, int count, int i, uint32_t sender) {
    while (i < count && list[i].sender == sender) i++;
    return i;
}

/* RCV(4): an entry that only one side has survives if the other has heard of no newer message. */
static int merge_sender(struct entry *target, const struct entry *a, int a_count,
                        const struct entry *b, int b_count) {
    uint32_t a_newest = a_count ? a[a_count - 1].clock : 0;
    uint32_t b_newest = b_count ? b[b_count - 1].clock : 0;
    int i = 0, j = 0, count = 0;
    while (i < a_count || j < b_count) {
        if (j == b_count || (i < a_count && a[i].clock < b[j].clock)) {
            if (a[i].clock > b_newest) target[count++] = a[i];
            i++;
        } else if (i == a_count || b[j].clock < a[i].clock) {
            if (b[j].clock > a_newest) target[count++] = b[j];
            j++;
        } else {
            target[count] = a[i++];
            target[count++].dests &= b[j++].dests;
        }
    }
    return count;
}

/* RCV(2) to RCV(5). */
static void deliver(struct process *self, const struct copy *copy, uint64_t me) {
    static struct log theirs;
    self->delivered[copy->sender] = copy->clock;
    reserve(&theirs, copy->count + 1);
    memcpy(theirs.entries, copy->entries, (size_t)copy->count * sizeof *copy->entries);
    theirs.count = copy->count;
    insert(&theirs, (struct entry){copy->dests, copy->sender, copy->clock});
    for (int i = 0; i < theirs.count; i++) theirs.entries[i].dests &= ~me;
    const struct entry *a = self->log.entries, *b = theirs.entries;
    int a_count = self->log.count, b_count = theirs.count, i = 0, j = 0;
    reserve(&merged, a_count + b_count);
    merged.count = 0;
    while (i < a_count || j < b_count) {
        uint32_t sender = i == a_count || (j < b_count && b[j].sender < a[i].sender)
                              ? b[j].sender : a[i].sender;
        int a_end = run_end(a, a_count, i, sender), b_end = run_end(b, b_count, j, sender);
        merged.count += merge_sender(merged.entries + merged.count, a + i, a_end - i, b + j,
                                     b_end - j);
        i = a_end;
        j = b_end;
    }
    merged.count = purge(merged.entries, merged.count);
    struct log old = self->log;
    self->log = merged;
    merged = old;
    deliveries++;
}

static void arrive(int place, struct copy *copy) {
    struct process *self = &processes[place];
    uint64_t me = BIT(place);
    if (self->held_count == self->held_room) {
        self->held_room = self->held_room ? 2 * self->held_room : 16;
        self->held = must(realloc(self->held, (size_t)self->held_room * sizeof *self->held));
    }
    self->held[self->held_count++] = copy;
    /* What was held before can only go once the new copy has gone. */
    for (int i = self->held_count - 1; i < self->held_count; i++) {
        struct copy *candidate = self->held[i];
        if (!is_deliverable(self, candidate, me)) continue;
        deliver(self, candidate, me);
        free(candidate);
        self->held[i] = self->held[--self->held_count];
        i = -1;
    }
}

int main(int count, char **words) {
    if (count != 8) {
        fputs("usage: yardstick N unicast|multicast RECEIVED WARM_UP SEED MEAN_DELAY MEAN_GAP\n",
              stderr);
        return 2;
    }
    int n = atoi(words[1]), is_multicast = strcmp(words[2], "multicast") == 0;
    uint64_t received = strtoull(words[3], NULL, 10), warm_up = strtoull(words[4], NULL, 10);
    double mean_delay = atof(words[6]), mean_gap = atof(words[7]);
    if (n < 2 || n > PROCESSES_MAX) {
        fprintf(stderr, "yardstick: %d processes; use 2 to %d\n", n, PROCESSES_MAX);
        return 2;
    }
    random_state = (strtoull(words[5], NULL, 10) + 1) * UINT64_C(0x9E3779B97F4A7C15);
    for (int process = 0; process < n; process++) schedule(exponential(mean_gap), process, NULL);
    uint64_t first = warm_up * (uint64_t)n, last = first + received * (uint64_t)n;
    clock_t begin = clock();
    while (deliveries < last) {
        struct event event = next_event();
        if (event.copy != NULL) {
            arrive(event.process, event.copy);
            continue;
        }
        uint64_t dests = choose_destinations(n, event.process, is_multicast);
        send(event.process, dests, event.time, mean_delay, deliveries >= first);
        schedule(event.time + exponential(mean_gap), event.process, NULL);
    }
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    printf("{\"entries_per_copy\": %.4f, \"bytes_per_copy\": %.4f, \"deliveries\": %" PRIu64
           ", \"seconds\": %.6f}\n",
           (double)entries / (double)copies,
           (double)(6 * entries + 2 * destinations) / (double)copies, deliveries, seconds);
    return 0;
}
