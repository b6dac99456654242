export const DAY = 86_400_000;

/** Whether a message need not be sent again, whether the server has taken it, and how many milliseconds it asks to wait. */
export async function post(
  url: string, message: Uint8Array<ArrayBuffer>, timeout: number, now: number,
): Promise<[done?: boolean, kept?: boolean, wait?: number | undefined]> {
  try {
    const answer = await fetch(url, {
      method: "POST",
      body: message,
      headers: { "Content-Type": "application/vnd.hushgram.report" },
      redirect: "error",
      credentials: "omit", // a cookie would tell who reports
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(timeout),
    });
    await answer.body?.cancel();
    const { ok, status, headers } = answer;
    return [ok || [400, 413, 415, 422].includes(status), ok, parseRetryAfter(headers.get("Retry-After"), now)];
  } catch {
    return []; // no network, no name, no TLS, a redirect
  }
}

/** Milliseconds, from a number of seconds or a date; undefined if there is neither, or one that has passed. */
export function parseRetryAfter(header: string | null, now: number): number | undefined {
  const wait = /^\d+$/.test(header!) ? +header! * 1000 : Date.parse(header!) - now;
  return wait > 0 ? Math.min(wait, DAY) : undefined;
}
