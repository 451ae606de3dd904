package kernel

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bolt "go.etcd.io/bbolt/errors"

	"routekeeper.dev/routekeeper/internal/arm"
)

// disk saves the state in a file, so that it survives a restart and a SIGKILL: the changes of a
// call are written before the call is answered. (It does not survive a loss of power: the file is
// not synced.) Each thing is a JSON document under its own key, and only changes are written.
// Faults, the request log, throttling and pending alerts are not saved.
type disk struct {
	*Kernel
	DB *bbolt.DB
	// unkept has the activity records, and operations the names of operations, that have changed
	// since they were saved.
	unkept     []ActivityRecord
	operations []string
	// activity is the number of the last record of the activity log.
	activity uint64
	// wrote is the last written form of the things that are saved as a whole.
	wrote map[string][]byte
}

// The buckets of the file: resources by ID.Key(), the activity log by number, operations and single
// things by name.
var (
	partResources  = []byte("resources")
	partActivity   = []byte("activity")
	partOperations = []byte("operations")
	partThings     = []byte("things")
)

// openDisk opens or creates the file.
func openDisk(path string, k *Kernel) (*disk, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600,
		&bbolt.Options{Timeout: time.Second, NoSync: true, NoFreelistSync: true})
	if errors.Is(err, bolt.ErrTimeout) {
		return nil, fmt.Errorf("%s is in use by another emulator", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, part := range [][]byte{partResources, partActivity, partOperations, partThings} {
			if _, err := tx.CreateBucketIfNotExists(part); err != nil {
				return err
			}
		}
		return nil
	})
	return &disk{DB: db, Kernel: k, wrote: map[string][]byte{}}, err
}

// number returns a key that sorts by number.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// Lock takes the emulator's lock for a change; the returned function saves the changes and releases
// the lock.
func (k *Kernel) Lock() (unlock func()) {
	k.Mu.Lock()
	return func() {
		defer k.Mu.Unlock()
		if k.Disk == nil || k.Closed {
			return
		}
		if err := k.Disk.keep(); err != nil {
			k.Log.Error("the state could not be saved", "error", err.Error())
		}
	}
}

// keep writes what has changed.
func (d *disk) keep() error {
	for key := range d.Store.dirty {
		for _, s := range d.services {
			if s.SavedWith != nil {
				if with := s.SavedWith(arm.ID(key)); with != "" {
					d.Store.dirty[with.Key()] = true
				}
			}
		}
	}
	things, err := d.changedThings()
	if err != nil || len(d.Store.dirty) == 0 && len(d.unkept) == 0 &&
		len(d.operations) == 0 && len(things) == 0 {
		return err
	}
	err = d.DB.Update(func(tx *bbolt.Tx) error {
		for key := range d.Store.dirty {
			if err := d.keepResource(tx.Bucket(partResources), key); err != nil {
				return err
			}
		}
		for _, r := range d.unkept {
			d.activity++
			if err := put(tx.Bucket(partActivity), number(d.activity), r); err != nil {
				return err
			}
		}
		if n := d.activity; n%1000 == 0 && n > maxActivity { // from time to time
			old := tx.Bucket(partActivity).Cursor()
			for key, _ := old.First(); key != nil &&
				binary.BigEndian.Uint64(key) <= n-maxActivity; key, _ = old.Next() {
				if err := old.Delete(); err != nil {
					return err
				}
			}
		}
		for _, name := range d.operations {
			if op := d.Operations[name]; op != nil {
				if err := put(tx.Bucket(partOperations), []byte(name), op); err != nil {
					return err
				}
			}
		}
		for name, raw := range things {
			if err := tx.Bucket(partThings).Put([]byte(name), raw); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		clear(d.Store.dirty)
		d.unkept, d.operations = nil, nil
		for name, raw := range things {
			d.wrote[name] = raw
		}
	}
	return err
}

func put(part *bbolt.Bucket, key []byte, doc any) error {
	raw, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return part.Put(key, raw)
}

// load reads the saved state. It reports whether the file had any.
func (d *disk) load() (found bool, err error) {
	err = d.DB.View(func(tx *bbolt.Tx) error {
		found = tx.Bucket(partThings).Get([]byte("keys")) != nil
		if err := each(tx.Bucket(partResources), func(_ string, s savedResource) error {
			return d.restoreResource(s)
		}); err != nil {
			return err
		}
		if key, _ := tx.Bucket(partActivity).Cursor().Last(); key != nil {
			d.activity = binary.BigEndian.Uint64(key)
		}
		if err := each(tx.Bucket(partActivity), func(_ string, r ActivityRecord) error {
			r.Kind = d.KindName(r.Resource)
			d.Activity = append(d.Activity, r)
			return nil
		}); err != nil {
			return err
		}
		if err := each(tx.Bucket(partOperations), func(name string, op *Operation) error {
			d.Operations[name] = op
			return nil
		}); err != nil {
			return err
		}
		for _, thing := range d.things {
			if raw := tx.Bucket(partThings).Get([]byte(thing.Name)); raw != nil {
				d.wrote[thing.Name] = bytes.Clone(raw)
				if err := thing.Restore(raw); err != nil {
					return fmt.Errorf("%s: %w", thing.Name, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return found, fmt.Errorf("%s cannot be read: %w", d.DB.Path(), err)
	}
	d.Store.dirty = map[string]bool{} // everything is already saved
	d.resume()
	return found, nil
}

// each decodes all documents of a part.
func each[T any](part *bbolt.Bucket, take func(string, T) error) error {
	return part.ForEach(func(key, raw []byte) error {
		var doc T
		if err := decodeKept(raw, &doc); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return take(string(key), doc)
	})
}

// decodeKept decodes a document; numbers keep their spelling.
func decodeKept(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}
