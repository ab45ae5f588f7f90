/* Standard error may be closed at the start: the file that is opened then has its number. The argument: the file. Then
 * frees what must not be freed, which is told. */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int file = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0600);
    CHECK(file >= 0 && write(file, "mine\n", 5) == 5);
    printf("%d\n", file);
    char *elsewhere = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(elsewhere != MAP_FAILED);
    free(elsewhere + 64);
    free(malloc(100));
    return 0;
}
