/* steps STARTS HINT ATTEMPT STEPS STEP_S END CHECKPOINT */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void note(char **argv)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    FILE *starts = fopen(argv[1], "a");
    fprintf(starts, "%s/%s %d %ld.%03ld\n", argv[2], argv[3], getpid(), now.tv_sec, now.tv_nsec / 1000000);
    fclose(starts);
}

static void brood(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            for (;;) pause();
        for (;;) pause();
    }
    for (;;) pause();
}

static void write_number(const char *path, int number)
{
    FILE *file = fopen(path, "w");
    fprintf(file, "%d\n", number);
    fclose(file);
}

static int read_number(const char *folder)
{
    char path[4096];
    int number = 0;
    snprintf(path, sizeof path, "%s/done", folder);
    FILE *file = fopen(path, "r");
    if (fscanf(file, "%d", &number) != 1) abort();
    fclose(file);
    return number;
}

static void leave_checkpoint(int done)
{
    char answer[100];
    write_number("checkpoint/done", done);
    dprintf(3, "checkpoint\n");
    ssize_t length = read(4, answer, sizeof answer);
    if (length >= 4 && memcmp(answer, "stop", 4) == 0) exit(0);
}

int main(int argc, char **argv)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    if (argc != 8) return 10;
    sigaction(SIGTERM, &ignored, NULL); /* it leaves a checkpoint after every step anyway */
    note(argv);
    int steps = atoi(argv[4]);
    const char *end = argv[6];
    if (strcmp(end, "brood") == 0) brood();
    int done = argv[7][0] ? read_number(argv[7]) : 0, began = done;
    mkdir("checkpoint", 0777);
    while (done < steps) {
        usleep((useconds_t)(atof(argv[5]) * 1e6));
        done++;
        dprintf(3, "progress %d/%d step %d\n", done, steps, done);
        leave_checkpoint(done);
    }
    puts("last words");
    fflush(stdout);
    if (strncmp(end, "line-", 5) == 0) dprintf(3, "error %s [as-asked] it was asked to\n", end + 5);
    if (strncmp(end, "exit-", 5) == 0) return atoi(end + 5);
    if (strcmp(end, "signal") == 0) raise(SIGSEGV);
    write_number("out/count.txt", done);
    dprintf(3, "value {\"began\": %d, \"done\": %d}\n", began, done);
    return 0;
}
