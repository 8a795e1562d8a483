package tenants

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/raftgroup/durable"
)

// fileName is the name of the file in the data folder.
const fileName = "callers"

// fileMagic begins the file. Behind it are the CRC-32C of the rest, and a ControlState with the cluster's id, keys and
// namespaces.
const fileMagic = "belfryk\x01"

// retryAfter is the pause after a failed write.
const retryAfter = 5 * time.Second

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// write replaces the file by one with the known part of a state.
func write(path, cluster string, part *clusterpb.ControlState) error {
	whole := known(part)
	whole.ClusterId = cluster
	body, err := proto.Marshal(whole)
	if err != nil {
		return err
	}
	data := fmt.Appendf(nil, "%s%08x", fileMagic, crc32.Checksum(body, castagnoli))
	return durable.Replace(path, append(data, body...), nil)
}

// read returns the part of a state in the file. It returns nil if there is no file, or one of another cluster.
func read(path, cluster string) (*clusterpb.ControlState, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	const header = len(fileMagic) + 8
	if len(data) < header || string(data[:len(fileMagic)]) != fileMagic {
		return nil, errors.New("it has another format")
	}
	body := data[header:]
	if sum := fmt.Sprintf("%08x", crc32.Checksum(body, castagnoli)); string(data[len(fileMagic):header]) != sum {
		return nil, errors.New("it is damaged: its content does not match its checksum")
	}
	state := &clusterpb.ControlState{}
	if err := proto.Unmarshal(body, state); err != nil {
		return nil, err
	}
	if state.ClusterId != cluster || cluster == "" {
		return nil, nil
	}
	return known(state), nil
}
