// A button at each block of code that copies it, without the prompts of a console and what that answered.
document.addEventListener('DOMContentLoaded', () => {
  for (const block of document.querySelectorAll('.bd-article .highlight')) {
    const code = block.querySelector('pre');
    if (!code || !navigator.clipboard || code.closest('.cell_output')) continue;
    const button = Object.assign(document.createElement('button'), {type: 'button', className: 'copy', title: 'Copy'});
    button.setAttribute('aria-label', 'Copy this code');
    const shown = text => { button.dataset.shown = text; };
    shown('⧉');
    button.addEventListener('click', async () => {
      const lines = code.textContent.trimEnd().split('\n'), typed = lines.filter(line => /^(>>>|\.\.\.)( |$)/.test(line));
      await navigator.clipboard.writeText((typed.length ? typed.map(line => line.slice(4)) : lines).join('\n'));
      shown('✓');
      setTimeout(shown, 1500, '⧉');
    });
    block.append(button);
  }
});
