package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// freshness is how far a timestamp may be off (api.md, Events, signature rule 5).
const freshness = 5 * time.Minute

// verify checks a delivery's signature and timestamp (api.md, Events): the HMAC-SHA256 of
// timestamp, a dot and the raw body, compared in constant time, then the timestamp's distance from
// now. timestamp is Unix milliseconds as sent; signature is "sha256=" and hex.
func verify(secret []byte, timestamp, signature string, body []byte, now time.Time) error {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(timestamp))
	mac.Write([]byte("."))
	mac.Write(body)
	want := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	if !hmac.Equal([]byte(want), []byte(signature)) {
		return errors.New("signature does not match")
	}
	ms, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("timestamp %q is not Unix milliseconds", timestamp)
	}
	if off := now.Sub(time.UnixMilli(ms)).Abs(); off > freshness {
		return fmt.Errorf("timestamp is %s off, more than %s", off.Round(time.Second), freshness)
	}
	return nil
}
