// Prints the addresses of a name as the C library finds them: `getent ahosts NAME`, with musl's resolver.

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int main(int count, char **arguments) {
    if (count != 3 || strcmp(arguments[1], "ahosts") != 0) {
        fprintf(stderr, "use: %s ahosts NAME\n", arguments[0]);
        return 1;
    }
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(arguments[2], NULL, &wanted, &found);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", arguments[2], gai_strerror(error));
        return 2;
    }
    for (struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        char text[256];
        if (getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0) {
            printf("%s STREAM %s\n", text, arguments[2]);
        }
    }
    freeaddrinfo(found);
    return 0;
}
