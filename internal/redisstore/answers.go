package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// AnswersHealth, for operators: whether answers that are kept survive a restart of the server, and find room there.

// answersLooked bounds the search for answers: a server with many keys has more than anybody waits for.
const answersLooked = 2 * time.Second

// AnswersHealth implements store.Store. A server that keeps no answers needs neither persistence nor much memory, so
// nothing is said of it.
func (s *Store) AnswersHealth(ctx context.Context) (facts []string, advice []error) {
	count, bytes, err := s.countAnswers(ctx)
	least := ""
	switch refused := store.AsError(err); {
	case err == nil:
	case count > 0:
		least = "at least "
	case refused.Permanent && refused.Evidence == store.Answered:
		return nil, nil // Health says that the user may not run SCAN
	default:
		return nil, []error{fmt.Errorf("cannot tell whether answers are kept here: %s", oneLine(refused.Err))}
	}
	if count == 0 {
		return nil, nil
	}
	facts = []string{fmt.Sprintf("answers of Do and Idempotent that are kept here: %s%d, of %s in all", least, count, inBytes(bytes))}
	masters, err := s.masters(ctx)
	if err != nil {
		return facts, []error{untold(s.failed(err).Err)}
	}
	for _, master := range masters { // those of a Cluster are mostly alike: what is true of several is said once
		fact, told := s.answersAt(ctx, master)
		if fact != "" && !slices.Contains(facts, fact) {
			facts = append(facts, fact)
		}
		for _, one := range told {
			if !slices.ContainsFunc(advice, func(said error) bool { return said.Error() == one.Error() }) {
				advice = append(advice, one)
			}
		}
	}
	return facts, advice
}

// countAnswers returns how many answers there are, and how many bytes they have. With an error it has not seen all.
func (s *Store) countAnswers(ctx context.Context) (count int, bytes int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, answersLooked)
	defer cancel()
	err = s.walk(ctx, "", recordEnd, func(master *redis.Client, names []string) (bool, error) {
		kept, err := s.kept(ctx, master, names)
		for _, n := range kept {
			if n > 0 {
				count, bytes = count+1, bytes+n
			}
		}
		return true, err
	})
	return count, bytes, err
}

// answersAt tells of a server whether answers are safe there.
func (s *Store) answersAt(ctx context.Context, master *redis.Client) (fact string, advice []error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	info, err := master.Info(ctx).Result()
	used, err1 := strconv.ParseInt(infoField(info, "used_memory"), 10, 64)
	most, err2 := strconv.ParseInt(infoField(info, "maxmemory"), 10, 64)
	switch aof := infoField(info, "aof_enabled"); {
	case err != nil:
		return "", []error{untold(s.failed(err).Err)}
	case errors.Join(err1, err2) != nil || aof == "":
		return "", []error{untold(errors.New("it does not say"))}
	case aof == "0":
		advice = append(advice, withoutAOF(ctx, master))
	default:
		fact = "answers survive a restart of the server (AOF), but for those of its last second with appendfsync everysec"
	}
	switch {
	case most == 0:
		advice = append(advice, errors.New("nothing bounds the server's memory (maxmemory 0): answers can fill the machine; set maxmemory"))
	case used > most/2:
		of := "the server"
		if s.cluster {
			of = master.Options().Addr
		}
		advice = append(advice, fmt.Errorf("the memory of %s is more than half full (used_memory %s of maxmemory %s), and without room there are neither answers nor locks: "+
			"raise maxmemory, or keep answers that are smaller, or for less time (MaxAnswer, Retain)", of, inBytes(used), inBytes(most)))
	}
	return fact, advice
}

// untold is what is said of a server of which INFO tells too little.
func untold(why error) error {
	return fmt.Errorf("cannot tell whether answers survive a restart of the server, and how full its memory is (INFO: %s)", oneLine(why))
}

// withoutAOF tells what a restart means without an append-only file. Whether the server makes snapshots is in its
// configuration alone, which users mostly may not read, and hosted servers do not show.
func withoutAOF(ctx context.Context, master *redis.Client) error {
	const remedy = ", and the work of their keys may be done once more: set appendonly yes"
	config, err := master.ConfigGet(ctx, "save").Result()
	save, told := config["save"]
	switch {
	case err != nil || !told:
		return errors.New("a restart of the server may forget answers" + remedy +
			" (there is no AOF, and whether there are snapshots cannot be told without CONFIG GET save)")
	case save == "":
		return errors.New("a restart of the server forgets all answers" + remedy + " (there are neither AOF nor snapshots)")
	}
	return fmt.Errorf("a crash of the server forgets the answers since its last snapshot"+remedy+" (there is no AOF; save is %s)", save)
}

// inBytes writes a number of bytes for people.
func inBytes(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	value := float64(n)
	for value >= 1024 && len(units) > 1 {
		value, units = value/1024, units[1:]
	}
	if units[0] == "bytes" {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}
