/* words FILE: counts the words of a text. Build it with: cc -o words words.c */
#include <ctype.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    FILE *text = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!text) {
        perror("words");
        return 11; /* a bad moment: try again */
    }
    long words = 0;
    int inside = 0;
    for (int c; (c = getc(text)) != EOF; inside = !isspace(c))
        if (!inside && !isspace(c) && ++words % 1000 == 0) dprintf(3, "progress 0.5 word %ld\n", words);
    if (words == 0) {
        dprintf(3, "error permanent [empty] there is nothing to count\n");
        return 1;
    }
    dprintf(3, "value {\"words\": %ld}\n", words);
    return 0;
}
