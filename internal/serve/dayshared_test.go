package serve

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// originals are the documents that rounds share, as they read when they were first seen: rounds of
// a keeper get the same ones again for as long as they read the same, so nobody may change one.
type originals struct {
	t  testing.TB
	mu sync.Mutex
	of map[any][sha256.Size]byte // the bytes of a document, by its address
}

// checkUnchanged checks that what was looked at still says what its bytes do, and that those are
// what they were.
func (o *originals) checkUnchanged(s *inventory.Snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	check := func(address any, d arm.Document, fresh any, err error) {
		sum := sha256.Sum256(d.Raw)
		if was, known := o.of[address]; known && was != sum {
			o.t.Errorf("the bytes of %s were changed in place", d.ID)
		}
		o.of[address] = sum
		if err != nil || !reflect.DeepEqual(address, fresh) {
			o.t.Errorf("%s was changed in place, or does not read as its bytes (%v):\n%s\n%s", d.ID,
				err, fmt.Sprintf("%+v", address), fmt.Sprintf("%+v", fresh))
		}
	}
	for _, table := range s.Tables {
		fresh, err := inventory.DecodeRouteTable(table.Raw)
		check(table, table.Document, fresh, err)
	}
	for _, subnet := range s.Subnets {
		fresh, err := inventory.DecodeSubnet(subnet.Raw)
		check(subnet, subnet.Document, fresh, err)
	}
}
