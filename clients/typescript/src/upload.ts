export const DAY = 86_400_000;

/** The status of an upload, 0 if there is none, and for how many milliseconds the server asks to wait. */
export async function post(
  url: string, message: Uint8Array<ArrayBuffer>, timeout: number, now: number,
): Promise<[status: number, wait?: number | undefined]> {
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
    return [answer.status, parseRetryAfter(answer.headers.get("Retry-After"), now)];
  } catch {
    return [0]; // no network, no name, no TLS, a redirect
  }
}

/** Milliseconds, from a number of seconds or a date; undefined if there is neither, or one that has passed. */
export function parseRetryAfter(header: string | null, now: number): number | undefined {
  const wait = /^\d+$/.test(header!) ? +header! * 1000 : Date.parse(header!) - now;
  return wait > 0 ? Math.min(wait, DAY) : undefined;
}
