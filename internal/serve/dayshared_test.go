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

// originals are the documents that checks share, as they were first read. A keeper's checks get the
// same decoded documents while they do not change, so nothing may modify them.
type originals struct {
	t  testing.TB
	mu sync.Mutex
	of map[any][sha256.Size]byte // the bytes of a document, by its address
}

// checkUnchanged checks that a decoded document still matches its bytes, and that the bytes have
// not changed.
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
