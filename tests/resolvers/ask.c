// Asks the C library's resolver, as /etc/resolv.conf has it, for records of any type: each line of the input is the number
// of a type and a name, and each line of the output what came of it.
//
//     DATA xx..,yy..   the data of the records of that type, in hexadecimal, sorted
//     NODATA           the name exists, without such a record
//     NXDOMAIN         it does not exist
//     FAILED           nobody knows

#include <arpa/nameser.h>
#include <netdb.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RECORDS = 64, MAX_ANSWER = 65535 };

static int compare(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void print_records(const unsigned char *answer, int len, int type) {
    ns_msg message;
    char *found[MAX_RECORDS];
    int count = 0;
    if (ns_initparse(answer, len, &message) != 0) {
        puts("FAILED");
        return;
    }
    for (int place = 0; place < ns_msg_count(message, ns_s_an) && count < MAX_RECORDS; place++) {
        ns_rr record;
        if (ns_parserr(&message, ns_s_an, place, &record) != 0 || ns_rr_type(record) != type) {
            continue;
        }
        char *text = calloc(2 * ns_rr_rdlen(record) + 1, 1);
        for (int byte = 0; byte < ns_rr_rdlen(record); byte++) {
            sprintf(text + 2 * byte, "%02x", ns_rr_rdata(record)[byte]);
        }
        found[count++] = text;
    }
    if (count == 0) {
        puts("NODATA");
        return;
    }
    qsort(found, count, sizeof *found, compare);
    printf("DATA ");
    for (int place = 0; place < count; place++) {
        printf("%s%s", place == 0 ? "" : ",", found[place]);
        free(found[place]);
    }
    puts("");
}

int main(void) {
    static unsigned char answer[MAX_ANSWER];
    char name[512];
    int type;
    while (scanf("%d %511s", &type, name) == 2) {
        int len = res_query(name, ns_c_in, type, answer, sizeof answer);
        if (len >= 0) {
            print_records(answer, len, type);
        } else if (h_errno == HOST_NOT_FOUND) {
            puts("NXDOMAIN");
        } else if (h_errno == NO_DATA) {
            puts("NODATA");
        } else {
            puts("FAILED");
        }
    }
    return 0;
}
