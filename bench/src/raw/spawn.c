/* The least that starting a program costs on this machine: posix_spawn with three pipes, and wait.
 * Every line "COUNT WINDOW" on stdin is that many spawns of /bin/true, WINDOW of them at a time; answered with "done". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WINDOW_MAX 64

extern char **environ;

struct child {
    pid_t pid;
    int ends[3];
};

static int start(struct child *child)
{
    int pipes[3][2];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++) {
        if (pipe2(pipes[fd], O_CLOEXEC) < 0)
            return -1;
        int theirs = fd == 0 ? pipes[fd][0] : pipes[fd][1];
        child->ends[fd] = fd == 0 ? pipes[fd][1] : pipes[fd][0];
        posix_spawn_file_actions_adddup2(&actions, theirs, fd);
    }
    char *argv[] = {"/bin/true", NULL};
    int error = posix_spawn(&child->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    for (int fd = 0; fd < 3; fd++)
        close(fd == 0 ? pipes[fd][0] : pipes[fd][1]);
    return error == 0 ? 0 : -1;
}

static int end(struct child *children, int window)
{
    int status;
    pid_t pid = wait(&status);
    for (int i = 0; i < window; i++) {
        if (children[i].pid != pid)
            continue;
        for (int fd = 0; fd < 3; fd++)
            close(children[i].ends[fd]);
        children[i].pid = 0;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
    }
    return -1;
}

int main(void)
{
    struct child children[WINDOW_MAX] = {0};
    long count;
    int window;
    while (scanf("%ld %d", &count, &window) == 2) {
        if (window < 1 || window > WINDOW_MAX)
            return 2;
        long started = 0, ended = 0;
        while (ended < count) {
            for (int i = 0; i < window && started < count; i++) {
                if (children[i].pid != 0)
                    continue;
                if (start(&children[i]) < 0)
                    return 1;
                started++;
            }
            if (end(children, window) < 0)
                return 1;
            ended++;
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
