// GLib main loop whose timer callback waits for a GCond that another thread signals after 0.8 s.
#include <glib.h>

static GMutex lock;
static GCond condition;
static gboolean is_there;

static gpointer announce_late(gpointer unused) {
    g_usleep(800000);
    g_mutex_lock(&lock);
    is_there = TRUE;
    g_cond_signal(&condition);
    g_mutex_unlock(&lock);
    return unused;
}

__attribute__((noinline, noclone)) static gboolean wait_for_thread(gpointer loop) {
    GThread *thread = g_thread_new("late", announce_late, NULL);
    g_mutex_lock(&lock);
    while (!is_there) g_cond_wait(&condition, &lock);
    g_mutex_unlock(&lock);
    g_thread_join(thread);
    g_timeout_add(100, (GSourceFunc)(void (*)(void))g_main_loop_quit, loop);
    return G_SOURCE_REMOVE;
}

static gboolean tick(gpointer unused) {
    (void)unused;
    return G_SOURCE_CONTINUE;
}

int main(void) {
    GMainLoop *loop = g_main_loop_new(NULL, FALSE);
    g_timeout_add(30, tick, NULL);
    g_timeout_add(200, wait_for_thread, loop);
    g_main_loop_run(loop);
    g_main_loop_unref(loop);
}
