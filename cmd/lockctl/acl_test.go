package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// onCallRules returns the rights of a user for everything that lockctl does, as the documents have them: README's line for services, and one
// more of docs/redis.md.
func onCallRules(t *testing.T) []string {
	t.Helper()
	rules := append(redistest.ACLRules(t, "../../README.md", "locks"), redistest.ACLRules(t, "../../docs/redis.md", "oncall")...)
	slices.SortStableFunc(rules, func(a, b string) int { return strings.Compare(kindOfRule(a), kindOfRule(b)) })
	return rules
}

// kindOfRule sorts what takes rights away before what gives them.
func kindOfRule(rule string) string {
	if strings.HasPrefix(rule, "reset") || rule[0] == '-' {
		return "takes"
	}
	return "to"
}

// An onCall is somebody on call, with a user of a Redis, and a service whose locks they look after.
type onCall struct {
	*testing.T
	servers []*redistest.Server
	client  redis.UniversalClient // of the service
	service *lockmw.Locker
	flags   []string // of lockctl
	round   int
}

func newOnCall(t *testing.T, client redis.UniversalClient, servers []*redistest.Server, flags ...string) *onCall {
	t.Helper()
	o := &onCall{T: t, servers: servers, client: client, service: locker(t, client)}
	o.flags = append([]string{"--redis", "redis://oncall:password@" + servers[0].Addr() + "?client_name=lockctl"}, flags...)
	o.do("CONFIG", "SET", "appendonly", "yes", "maxmemory", "1gb") // so that doctor has no advice
	return o
}

// do has each server carry out a command.
func (o *onCall) do(args ...any) {
	o.Helper()
	for _, s := range o.servers {
		if err := s.Client(o.T).Do(context.Background(), args...).Err(); err != nil {
			o.Fatal(err)
		}
	}
}

// everything does everything that lockctl does, as a user with these rights. It returns what does not work, or nil.
func (o *onCall) everything(rules []string) error {
	o.Helper()
	o.round++
	set := []any{"ACL", "SETUSER", "oncall", "reset"}
	for _, rule := range rules {
		set = append(set, rule)
	}
	o.do(set...)
	order, page, invoice := fmt.Sprint("order:", o.round), fmt.Sprint("page:", o.round), fmt.Sprint("invoice:", o.round)
	_, lease, err := o.service.Acquire(context.Background(), order, lockmw.Policy{Wait: 10 * time.Second}) // who may wait hears of a release by force at once
	if err != nil {
		o.Fatal(err)
	}
	await.Within(o.T, 20*time.Second, "it hears of messages", func() bool { return o.service.Stats().Subscribed })
	take(o.T, o.service, page, "", lockmw.Policy{Mode: lockmw.Shared})
	work := begun(o.T, o.client, invoice)
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"doctor"}, "locks work in this Redis"},
		{[]string{"ls"}, order},
		{[]string{"__complete", "show", order}, order},
		{[]string{"show", order}, "web-7"},
		{[]string{"release", order, "--reason", "INC-42"}, order},
		{[]string{"release", "--yes", page}, page},
		{[]string{"uncertain"}, work},
		{[]string{"resolve", invoice, work, "again"}, invoice},
		{[]string{"policy", "set", "shop/*", "wait=5s", "--for", "1h"}, "shop/*"},
		{[]string{"policy", "ls"}, "shop/*"},
		{[]string{"policy", "clear", "shop/*"}, "shop/*"},
	} {
		at := 0 // of the flags: what a shell completes is at the end
		if step.args[0] == "__complete" {
			at = 1
		}
		got := lockctl(o.T, "yes\n", slices.Concat(step.args[:at], o.flags, step.args[at:])...)
		if got.status != statusOK || !strings.Contains(got.out, step.says) {
			return fmt.Errorf("lockctl %s: status %d: %s%s", strings.Join(step.args, " "), got.status, got.out, got.errs)
		}
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(20 * time.Second):
		return errors.New("the holder is not told")
	}
	var revoked *lockmw.RevokedError
	if cause := context.Cause(lease.Context()); !errors.As(cause, &revoked) || revoked.Reason != "INC-42" {
		return fmt.Errorf("the holder learns %w", cause)
	}
	return nil
}

// The user for operators of docs/redis.md may do everything that lockctl does, and nothing works without any of its rights.
func TestTheACLOfWhoIsOnCallIsEnoughAndMinimal(t *testing.T) {
	server := redistest.Real(t)
	o, rules := newOnCall(t, server.Client(t), []*redistest.Server{server}), onCallRules(t)
	if err := o.everything(rules); err != nil {
		t.Fatal(err)
	}
	for i, rule := range rules {
		if kindOfRule(rule) == "takes" || rule == "on" || rule == ">password" {
			continue
		}
		err := o.everything(slices.Delete(slices.Clone(rules), i, i+1))
		if err == nil {
			t.Errorf("without %s everything works", rule)
			continue
		}
		names := "NOPERM"
		if command, ok := strings.CutPrefix(rule, "+"); ok {
			names = strings.ReplaceAll(command, "|", " ")
		}
		if text := strings.ReplaceAll(err.Error(), "|", " "); !strings.Contains(strings.ToUpper(text), strings.ToUpper(names)) {
			t.Errorf("without %s it is not the right that is missing: %v", rule, err)
		}
	}
}

// In a Cluster the same user needs what a service needs there besides.
func TestTheACLOfWhoIsOnCallInACluster(t *testing.T) {
	cluster := redistest.Cluster(t)
	o, rules := newOnCall(t, cluster.Client(t), cluster.Nodes, "--cluster"), onCallRules(t)
	if err := o.everything(append(slices.Clone(rules), "+cluster|slots", "+asking")); err != nil {
		t.Error(err)
	}
	if err := o.everything(append(slices.Clone(rules), "+asking")); err == nil {
		t.Error("without cluster|slots everything works")
	}
}

// The locks of policies in shadow can be looked at. Nobody sets anything for them, because no service reads that.
func TestTheLocksOfPoliciesInShadowAreSeen(t *testing.T) {
	server := redistest.Real(t)
	take(t, locker(t, server.Client(t)), "order:42", "GET /orders/42", lockmw.Policy{Shadow: true})
	inShadow := func(args ...string) call {
		return lockctl(t, "", append(args, "--namespace", "lock:shadow", "--redis", at(server, ""))...)
	}
	await.Until(t, "the virtual lock is held", func() bool { return strings.Contains(inShadow("ls").out, "order:42") })
	if got := inShadow("show", "order:42"); got.status != statusOK || !strings.Contains(got.out, "order:42") {
		t.Errorf("show: %+v", got)
	}
	if got := inShadow("policy", "set", "shop/pay", "wait=5s", "--yes"); got.status != statusUsage || !strings.Contains(got.errs, `services read the settings of "lock"`) {
		t.Errorf("policy set: %+v", got)
	}
}
