// A program is started with posix_spawn, with its output redirected into a pipe.

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(void) {
    int ends[2], status = 0;
    char *arguments[] = {"sh", "-c", "echo spawned; exit 4", NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    if (pipe(ends)) return 1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    if (posix_spawnp(&pid, "sh", &actions, NULL, arguments, environ)) return 2;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *output = fdopen(ends[0], "r");
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, output) > 0) fputs(line, stdout);
    free(line);
    fclose(output);
    waitpid(pid, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
    return 0;
}
