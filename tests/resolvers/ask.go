// Asks Go's own resolver, as /etc/resolv.conf has it: each line of the input is the number of a type and a name, and each
// line of the output what came of it. See ask.c; Go does not tell a name without such records from one that does not exist
// (NOTFOUND), and knows some types alone.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
)

func main() {
	resolver := &net.Resolver{PreferGo: true}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var kind int
		var name string
		if _, err := fmt.Sscan(lines.Text(), &kind, &name); err != nil {
			fmt.Fprintln(os.Stderr, "use: lines of TYPE NAME:", err)
			os.Exit(1)
		}
		records, err := look(resolver, kind, name+".")
		var failure *net.DNSError
		switch {
		case err == nil && len(records) > 0:
			sort.Strings(records)
			fmt.Println("DATA " + strings.Join(records, ","))
		case err == nil, errors.As(err, &failure) && failure.IsNotFound:
			fmt.Println("NOTFOUND")
		default:
			fmt.Println("FAILED")
		}
	}
}

// The records of a name, as hexadecimal numbers for addresses and as Go writes them otherwise.
func look(resolver *net.Resolver, kind int, name string) ([]string, error) {
	ctx := context.Background()
	var records []string
	switch kind {
	case 1, 28:
		network := map[int]string{1: "ip4", 28: "ip6"}[kind]
		addresses, err := resolver.LookupNetIP(ctx, network, name)
		for _, address := range addresses {
			records = append(records, hex.EncodeToString(address.Unmap().AsSlice()))
		}
		return records, err
	case 15:
		hosts, err := resolver.LookupMX(ctx, name)
		for _, host := range hosts {
			records = append(records, fmt.Sprintf("%d %s", host.Pref, host.Host))
		}
		return records, err
	case 16:
		return resolver.LookupTXT(ctx, name)
	case 33:
		_, services, err := resolver.LookupSRV(ctx, "", "", name)
		for _, service := range services {
			records = append(records, fmt.Sprintf("%d %d %d %s", service.Priority, service.Weight, service.Port, service.Target))
		}
		return records, err
	}
	fmt.Fprintln(os.Stderr, "Go's resolver does not ask for type", kind)
	os.Exit(1)
	return nil, nil
}
